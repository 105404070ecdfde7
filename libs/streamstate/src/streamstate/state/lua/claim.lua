-- Concatenated to server.lua, which sets `info`.
-- KEYS[1]: the partition's hash tag. ARGV: owner, format of the state, {ends, begins, origins, folds: each by topic,
-- open: the target to replace}.
-- Returns the partition's hash and the run id of the server as 'server': names and values in turn.
local tag, call = KEYS[1], redis.call
local owner, format, given = ARGV[1], ARGV[2], cmsgpack.unpack(ARGV[3])
if call('HGET', tag, 'begun') ~= call('HGET', tag, 'ended') then
  return redis.error_reply('INCOMPLETE a commit or a reset stopped half way')
end
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
-- At least the time (microseconds): the epoch rises even after the store was emptied.
local epoch = string.format('%.0f', math.max(now, (tonumber(call('HGET', tag, 'epoch') or nil) or 0) + 1))
call('HSET', tag, 'owner', owner, 'epoch', epoch)
call('HSETNX', tag, 'format', format)
local function stored(topic) return call('HGET', tag, 'offset:' .. topic) end
for topic, target in pairs(given.ends) do
  local held = call('HGET', tag, 'target:' .. topic)
  if held == given.open or not (held or stored(topic)) then call('HSET', tag, 'target:' .. topic, target) end
end
-- Until the first commit, each claim starts a new build, with the present topics and folds.
for topic, begin in pairs(given.begins) do
  if not stored(topic) then call('HSET', tag, 'begin:' .. topic, begin) end
end
for topic, fold in pairs(given.folds) do
  call(stored(topic) and 'HSETNX' or 'HSET', tag, 'fold:' .. topic, fold)
end
for topic, origin in pairs(given.origins) do call('HSETNX', tag, 'origin:' .. topic, origin) end
local answer = call('HGETALL', tag)
answer[#answer + 1] = 'server'
answer[#answer + 1] = string.match(info, 'run_id:(%w+)')
return answer
