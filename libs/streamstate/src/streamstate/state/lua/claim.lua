-- KEYS[1]: the partition's hash tag. ARGV: owner, {field, value ...} to keep unless they are there, then topic and end
-- offset in turn.
-- Returns {epoch, run id of the server, topic, offset, stream time, topic ...} with '' where none is stored.
local tag, call = KEYS[1], redis.call
if call('HEXISTS', tag, 'incomplete') == 1 then return redis.error_reply('INCOMPLETE a commit stopped half way') end
local info = call('INFO', 'server', 'memory', 'replication')
local policy = string.match(info, 'maxmemory_policy:([%w-]+)') or ''
if string.find(policy, '^allkeys') then
  return redis.error_reply('MISCONFIGURED this Redis lets go of keys (maxmemory-policy ' .. policy
    .. '); the state would lose counts: set maxmemory-policy noeviction')
end
if string.find(info, 'role:slave', 1, true) then
  return redis.error_reply('MISCONFIGURED this Redis is a replica; what is written to it is lost: name its primary')
end
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
-- At least the time (microseconds): the epoch rises even over a store that was emptied in between.
local epoch = string.format('%.0f', math.max(now, (tonumber(call('HGET', tag, 'epoch') or nil) or 0) + 1))
call('HSET', tag, 'owner', ARGV[1], 'epoch', epoch)
local kept = cmsgpack.unpack(ARGV[2])
for i = 1, #kept, 2 do call('HSETNX', tag, kept[i], kept[i + 1]) end
local answer = {epoch, (string.match(info, 'run_id:(%w+)'))}
for i = 3, #ARGV, 2 do
  local offset, time = unpack(call('HMGET', tag, 'offset:' .. ARGV[i], 'time:' .. ARGV[i]))
  if not offset then call('HSETNX', tag, 'target:' .. ARGV[i], ARGV[i + 1]) end
  answer[#answer + 1] = ARGV[i]
  answer[#answer + 1] = offset or ''
  answer[#answer + 1] = time or ''
end
return answer
