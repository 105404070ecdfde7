-- KEYS[1]: the partition's hash tag, e.g. {metrics:7}; it is also the hash that holds owner, epoch, offsets and times.
-- ARGV: epoch, run id of the server, steps ({topic, expected offset or nil, next offset, stream time}), operations, counters.
-- Returns {1} when all was applied, else {0, epoch, run id, topic, offset ('' for none)} as they are, and nothing was.
local tag, call = KEYS[1], redis.call
local epoch, server, steps = ARGV[1], ARGV[2], cmsgpack.unpack(ARGV[3])
local held = call('HGET', tag, 'epoch') or ''
local run = string.match(call('INFO', 'server'), 'run_id:(%w+)')
for _, step in ipairs(steps) do
  local offset = call('HGET', tag, 'offset:' .. step[1])
  local expected = step[2] and string.format('%.0f', step[2])
  if held ~= epoch or run ~= server or offset ~= (expected or false) then
    return {0, held, run, step[1], offset or ''}
  end
end

local function merged(was, add, least, most)
  local now = was
  if add then now = (now or 0) + add end
  if least and (not now or least < now) then now = least end
  if most and (not now or most > now) then now = most end
  return now
end

local function names_of(...)
  local names = {}
  for _, map in ipairs({...}) do
    for name in pairs(map) do names[#names + 1] = name end
  end
  return names
end

-- One read and one write for many names, in pieces since Lua passes only so many arguments: `change` gives for a name and
-- its old value what to append to the write.
local PIECE = 1000
local function update(key, read, write, names, change)
  for first = 1, #names, PIECE do
    local last = math.min(first + PIECE - 1, #names)
    local old, changes = call(read, key, unpack(names, first, last)), {}
    for i = first, last do change(changes, names[i], old[i - first + 1]) end
    if #changes > 0 then call(write, key, unpack(changes)) end
  end
end

local apply = {
  put = function(key, op) call('SET', key, op[3]) end,
  delete = function(key) call('DEL', key) end,
  merge = function(key, op)
    update(key, 'HMGET', 'HSET', names_of(op[3], op[4], op[5]), function(changes, name, old)
      local was = tonumber(old or nil)
      local now = merged(was, op[3][name], op[4][name], op[5][name])
      if now ~= was then
        changes[#changes + 1] = name
        changes[#changes + 1] = string.format('%.0f', now)
      end
    end)
  end,
  -- Scores are stored negated: Redis then orders ties by member, ascending. Two commands for a ranking cost less than a
  -- ZINCRBY for each member.
  rank = function(key, op)
    update(key, 'ZMSCORE', 'ZADD', names_of(op[3]), function(changes, name, old)
      changes[#changes + 1] = (old or 0) - op[3][name]
      changes[#changes + 1] = name
    end)
  end,
  push = function(key, op)
    for member, time in pairs(op[3]) do call('ZADD', key, time, member) end
    call('ZREMRANGEBYRANK', key, 0, -op[4] - 1)
  end,
  append = function(key, op)
    local number, oldest = string.format('%.0f', op[3]), string.format('%.0f', math.max(0, op[3] - op[5] + 1))
    local added = redis.pcall('XADD', key, 'MINID', '=', oldest, number, 'text', op[4])
    if type(added) == 'table' and added.err and not string.find(added.err, 'equal or smaller') then error(added) end
  end,
  -- The family is a sorted set itself, of its timelines with a time that none of their entries is before.
  insert = function(family, op)
    local key, oldest = family .. ':' .. op[3], math.huge
    for _, time in pairs(op[4]) do
      oldest = math.min(oldest, time)
      if op[5] then call('ZREMRANGEBYSCORE', key, time, time) end
    end
    for text, time in pairs(op[4]) do call('ZADD', key, time, text) end
    if oldest < math.huge then call('ZADD', family, 'LT', oldest, op[3]) end
  end,
  forget = function(family, op)
    local before = string.format('(%.0f', op[3])
    for _, name in ipairs(call('ZRANGEBYSCORE', family, '-inf', before)) do
      call('ZREMRANGEBYSCORE', family .. ':' .. name, '-inf', before)
      local first = call('ZRANGE', family .. ':' .. name, 0, 0, 'WITHSCORES')
      if first[1] then call('ZADD', family, first[2], name) else call('ZREM', family, name) end
    end
  end,
}

for _, op in ipairs(cmsgpack.unpack(ARGV[4])) do
  apply[op[1]](tag .. ':' .. op[2], op)
end
for name, count in pairs(cmsgpack.unpack(ARGV[5])) do call('HINCRBY', tag, 'count:' .. name, count) end
for _, step in ipairs(steps) do
  local next_offset, time = string.format('%.0f', step[3]), string.format('%.0f', step[4])
  call('HSET', tag, 'offset:' .. step[1], next_offset, 'time:' .. step[1], time)
end
return {1}
