-- KEYS[1]: the partition's hash tag, e.g. {metrics:7}; it is also the hash that holds owner, epoch, offsets and times.
-- KEYS[2]: never exists; with it, Redis refuses the script while the slot migrates.
-- ARGV: epoch, run id of the server, steps ({topic, expected offset or nil, next offset, stream time}), operations, counters.
-- Returns {1} when all was applied, else {0, epoch, run id, topic, offset ('' for none)} as they are, and nothing was.
local tag, call = KEYS[1], redis.call
local epoch, server, steps = ARGV[1], ARGV[2], cmsgpack.unpack(ARGV[3])
local operations, counters = cmsgpack.unpack(ARGV[4]), cmsgpack.unpack(ARGV[5])
local held, begun, ended = unpack(call('HMGET', tag, 'epoch', 'begun', 'ended'))
if begun ~= ended then return redis.error_reply('INCOMPLETE a commit or a reset stopped half way') end
local run = string.match(call('INFO', 'server'), 'run_id:(%w+)')
for _, step in ipairs(steps) do
  local offset = call('HGET', tag, 'offset:' .. step[1])
  local expected = step[2] and string.format('%.0f', step[2])
  if held ~= epoch or run ~= server or offset ~= (expected or false) then
    return {0, held or '', run, step[1], offset or ''}
  end
end

-- What a script has written stays when it fails. So everything that Redis may refuse is tried before the first write: the
-- rights to the commands, and a read of each key, which finds one of another type.
local rights = {
  put = {{'SET', tag, ''}},
  delete = {{'DEL', tag}},
  merge = {{'HSET', tag, '', ''}},
  increment = {{'ZADD', tag, 0, ''}},
  index = {{'ZADD', tag, 0, ''}, {'ZREM', tag, ''}},
  push_recent = {{'ZADD', tag, 0, ''}, {'ZREMRANGEBYRANK', tag, 0, 0}},
  append = {{'XADD', tag, '*', '', ''}},
  insert = {{'ZADD', tag, 0, ''}, {'ZREMRANGEBYSCORE', tag, 0, 0}},
  remove = {{'ZREM', tag, ''}},
  delete_timeline = {{'DEL', tag}, {'ZREM', tag, ''}},
  expire = {
    {'ZCOUNT', tag, 0, 0}, {'ZREMRANGEBYRANK', tag, 0, 0}, {'ZRANGE', tag, 0, 0}, {'ZADD', tag, 0, ''}, {'ZREM', tag, ''},
  },
  commit = {{'HINCRBY', tag, '', 1}, {'HSET', tag, '', ''}},
}
local checked = {}
local function require_rights(kind)
  for _, command in ipairs(rights[kind]) do
    if not redis.acl_check_cmd(unpack(command)) then
      error(redis.error_reply('NOPERM the Redis user may not run ' .. command[1] .. ', nothing was written'))
    end
  end
  checked[kind] = true
end

-- Lua passes only so many arguments at a time.
local PIECE = 1000
local function call_in_pieces(command, key, arguments, count)
  if count <= 2 * PIECE then return count > 0 and call(command, key, unpack(arguments, 1, count)) or {} end
  local values = {}
  for first = 1, count, 2 * PIECE do
    local answer = call(command, key, unpack(arguments, first, math.min(first + 2 * PIECE - 1, count)))
    for i, value in ipairs(type(answer) == 'table' and answer or {}) do values[first + i - 1] = value end
  end
  return values
end

local function append_names(names, map)
  local count = #names
  for name in pairs(map) do
    count = count + 1
    names[count] = name
  end
  return names
end

-- So many entries are removed by a commit, and as many more as it inserts; reads leave out those that are left over.
local expiring = 500

-- Returns the old values of what an operation changes, and their names where there are several: tables cost as much as
-- a command, and most operations of a small commit change one member.
local read = {
  merge = function(key, op)
    local names = append_names(append_names(append_names({}, op[3]), op[4]), op[5])
    local values = call_in_pieces('HMGET', key, names, #names)
    for i = 1, #names do
      local number = values[i] and tonumber(values[i])
      if values[i] and not number then
        error(redis.error_reply('CORRUPT a field of ' .. string.match(key, '^[^}]*}:[^:]*') .. ' is no number, nothing was '
          .. 'written; verify names it: restore it, or delete all keys of its partition to build them anew'))
      end
      values[i] = number
    end
    return values, names
  end,
  increment = function(key, op)
    local name = next(op[3])
    if name and not next(op[3], name) then return call('ZSCORE', key, name) end
    local names = append_names({}, op[3])
    return call_in_pieces('ZMSCORE', key, names, #names), names
  end,
  push_recent = function(key) return call('ZCARD', key) end,
}

local touch = {
  index = function(key) call('ZCARD', key) end,
  append = function(key) call('XLEN', key) end,
  insert = function(family, op)
    call('ZCARD', family)
    call('ZCARD', family .. ':' .. op[3])
    for _ in pairs(op[4]) do expiring = expiring + 1 end
  end,
  remove = function(family, op)
    call('ZCARD', family)
    call('ZCARD', family .. ':' .. op[3])
  end,
  delete_timeline = function(family) call('ZCARD', family) end,
  expire = function(family, op)
    local outdated = call('ZRANGEBYSCORE', family, '-inf', string.format('(%.0f', op[3]), 'LIMIT', 0, expiring)
    for _, name in ipairs(outdated) do call('ZCARD', family .. ':' .. name) end
    return outdated
  end,
}

local function merged(was, add, least, most)
  local now = was
  if add then now = (now or 0) + add end
  if least and (not now or least < now) then now = least end
  if most and (not now or most > now) then now = most end
  return now
end

-- Written over by each operation, up to the count that it passes on.
local changes = {}

-- Whether a number has come beyond 2^52, half of what is exact: from then on, sums are looked at before a commit.
local large = false
local function look_at_size(number)
  if number > 2^52 or number < -2^52 then large = true end
end

local write = {
  put = function(key, op) call('SET', key, op[3]) end,
  delete = function(key) call('DEL', key) end,
  merge = function(key, op, values, names)
    local count, add, least, most = 0, op[3], op[4], op[5]
    for i = 1, #names do
      local name = names[i]
      local was = values[i] or nil
      local now = merged(was, add[name], least[name], most[name])
      if now ~= was then
        look_at_size(now)
        changes[count + 1], changes[count + 2] = name, now
        count = count + 2
      end
    end
    call_in_pieces('HSET', key, changes, count)
  end,
  -- Scores are stored negated: Redis then orders ties by member, ascending. Two commands for a ranking cost less than a
  -- ZINCRBY for each member.
  increment = function(key, op, values, names)
    if not names then
      local name, by = next(op[3])
      look_at_size((values or 0) - by)
      call('ZADD', key, (values or 0) - by, name)
      return
    end
    local by = op[3]
    for i = 1, #names do
      changes[2 * i - 1] = (values[i] or 0) - by[names[i]]
      look_at_size(changes[2 * i - 1])
      changes[2 * i] = names[i]
    end
    call_in_pieces('ZADD', key, changes, 2 * #names)
  end,
  -- Of equal scores, Redis orders members by their bytes.
  index = function(key, op)
    local add, remove = op[3], op[4]
    for i = 1, #add do changes[2 * i - 1], changes[2 * i] = 0, add[i] end
    call_in_pieces('ZADD', key, changes, 2 * #add)
    call_in_pieces('ZREM', key, remove, #remove)
  end,
  push_recent = function(key, op, size)
    local count, keep = 0, op[4]
    for member, time in pairs(op[3]) do
      changes[count + 1], changes[count + 2] = time, member
      count = count + 2
    end
    call_in_pieces('ZADD', key, changes, count)
    if size + count / 2 > keep then call('ZREMRANGEBYRANK', key, 0, -keep - 1) end
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
  -- The family may name a timeline that is empty: `expire` drops it.
  remove = function(family, op) call('ZREM', family .. ':' .. op[3], op[4]) end,
  delete_timeline = function(family, op)
    call('DEL', family .. ':' .. op[3])
    call('ZREM', family, op[3])
  end,
  expire = function(family, op, outdated)
    local field, before = 'expired:' .. op[2], string.format('(%.0f', op[3])
    if op[3] > (tonumber(call('HGET', tag, field) or nil) or -math.huge) then
      call('HSET', tag, field, string.format('%.0f', op[3]))
    end
    for _, name in ipairs(outdated) do
      local key = family .. ':' .. name
      local count = math.min(call('ZCOUNT', key, '-inf', before), expiring)
      if count > 0 then call('ZREMRANGEBYRANK', key, 0, count - 1) end
      local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
      if first[1] then call('ZADD', family, first[2], name) else call('ZREM', family, name) end
      expiring = expiring - count
      if expiring < 1 then return end
    end
  end,
}

local types = {put = 'string', merge = 'hash', append = 'stream', delete = 'none'}
local replaces = {put = true, delete = true}
local of_family = {insert = true, remove = true, delete_timeline = true, expire = true}

require_rights('commit')
local keys, old, names, seen = {}, {}, {}, {}
local prefix = tag .. ':'
for i = 1, #operations do
  local op = operations[i]
  local kind, key = op[1], prefix .. op[2]
  local before, after = seen[key], types[kind] or 'zset'
  if not checked[kind] then require_rights(kind) end
  if before and before ~= after and before ~= 'none' and not replaces[kind] then
    error(redis.error_reply('WRONGTYPE one commit uses a key as ' .. before .. ' and as ' .. after .. ', nothing was written'))
  end
  if before and read[kind] then
    -- Of a key that comes again, the values that this commit wrote are read.
    names[i] = 'again'
  elseif read[kind] then
    old[i], names[i] = read[kind](key, op)
  elseif touch[kind] and (not before or of_family[kind]) then
    old[i] = touch[kind](key, op)
  end
  keys[i], seen[key] = key, after
end

-- The two differ when a write fails all the same: nothing is written on top of half a commit. One is counted, the other
-- one set: a Redis that lost the end of a transaction in its file keeps the beginning there, and at its next start applies
-- it before the commit that came instead.
begun = call('HINCRBY', tag, 'begun', 1)
for i = 1, #operations do
  local op = operations[i]
  local kind, key = op[1], keys[i]
  if names[i] == 'again' then old[i], names[i] = read[kind](key, op) end
  write[kind](key, op, old[i], names[i])
end
if large then counters.large_numbers = 1 end
for name, count in pairs(counters) do call('HINCRBY', tag, 'count:' .. name, count) end
local fields = {'ended', begun}
for _, step in ipairs(steps) do
  for name, value in pairs({['offset:'] = step[3], ['time:'] = step[4]}) do
    fields[#fields + 1], fields[#fields + 2] = name .. step[1], string.format('%.0f', value)
  end
end
call('HSET', tag, unpack(fields))
return {1}
