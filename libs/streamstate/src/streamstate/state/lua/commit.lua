-- Concatenated to buckets.lua.
-- KEYS[1]: the partition's hash tag, e.g. {metrics:7}; it is also the hash that holds owner, epoch, offsets and times.
-- KEYS[2]: never exists; with it, Redis refuses the script while the slot migrates.
-- ARGV: epoch, run id of the server, steps ({topic, expected offset or nil, next offset, stream time}), operations, counters,
-- the number of the record of releases by which outputs were published ('' for none), and 1 where nothing is to be written.
-- Returns {1} after applying all, else with nothing applied {0, epoch, run id, topic, offset ('' for none)} as stored, or {2}
-- for a partition that was fenced by a later record of releases.
local tag, call = KEYS[1], redis.call
local epoch, server, steps = ARGV[1], ARGV[2], cmsgpack.unpack(ARGV[3])
local operations, counters = cmsgpack.unpack(ARGV[4]), cmsgpack.unpack(ARGV[5])
local held, begun, ended, fenced = unpack(call('HMGET', tag, 'epoch', 'begun', 'ended', 'record'))
if begun ~= ended then return redis.error_reply('INCOMPLETE a commit or a reset stopped half way') end
local run = string.match(call('INFO', 'server'), 'run_id:(%w+)')
for _, step in ipairs(steps) do
  local offset = call('HGET', tag, 'offset:' .. step[1])
  local expected = step[2] and string.format('%.0f', step[2])
  if held ~= epoch or run ~= server or offset ~= (expected or false) then
    return {0, held or '', run, step[1], offset or ''}
  end
end
local record = ARGV[6]
if record ~= '' and tonumber(fenced or 0) > tonumber(record) then return {2} end

-- What a script has written stays when it fails. So everything that Redis may refuse is tried before the first write: the
-- rights to the commands, and a read of each key, which finds a key of another type.
local rights = {
  put = {{'SET', tag, ''}},
  delete = {{'DEL', tag}, {'ZSCORE', tag, ''}},
  merge = {{'HSET', tag, '', ''}, {'HKEYS', tag}},
  increment = {
    {'ZADD', tag, 0, ''}, {'ZREMRANGEBYRANK', tag, 0, 0}, {'DEL', tag}, {'HGETALL', tag}, {'HDEL', tag, ''}, {'HSET', tag, '', ''},
    {'HINCRBY', tag, '', 1},
  },
  index = {{'ZADD', tag, 0, ''}, {'ZREM', tag, ''}},
  push_recent = {{'ZADD', tag, 0, ''}, {'ZREMRANGEBYRANK', tag, 0, 0}},
  append = {{'XADD', tag, '*', '', ''}},
  insert = {{'ZADD', tag, 0, ''}, {'ZREMRANGEBYSCORE', tag, 0, 0}},
  append_lines = {{'HGET', tag, ''}, {'HSET', tag, '', ''}, {'HINCRBY', tag, '', 1}, {'ZADD', tag, 0, ''}},
  remove = {{'ZREM', tag, ''}},
  delete_timeline = {{'DEL', tag}, {'ZREM', tag, ''}},
  expire = {
    {'ZCOUNT', tag, 0, 0}, {'ZREMRANGEBYRANK', tag, 0, 0}, {'ZRANGE', tag, 0, 0}, {'ZADD', tag, 0, ''}, {'ZREM', tag, ''},
  },
  expire_days = {
    {'HGET', tag, ''}, {'HKEYS', tag}, {'HDEL', tag, ''}, {'HSET', tag, '', ''}, {'ZADD', tag, 0, ''}, {'ZREM', tag, ''},
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

-- Lua's limit of arguments.
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

-- Expired entries removed by a commit, in addition to the number that it inserts; reads omit the remaining ones.
local expiring = 500

-- Numbers are exact up to 2^53. A greater sum is rounded: without the summand, another number is left.
local function add(number, summand)
  local sum = number + summand
  if sum > 2^53 or sum < -2^53 or sum - summand ~= number then
    error(redis.error_reply('OVERFLOW a stored number would be beyond 2^53, up to which numbers are exact'))
  end
  return sum
end

local function merge(number, summand, least, most)
  if summand then number = add(number or 0, summand) end
  if least and (not number or least < number) then number = least end
  if most and (not number or most > number) then number = most end
  return number
end

-- Adds the texts of groups to those of an earlier operation.
local function append_texts(groups, next_groups)
  for i = 1, #next_groups[2] do groups[2][#groups[2] + 1] = next_groups[2][i] end
end

-- Merges the second operation into the first, of the same kind and key.
local combine = {
  merge = function(op, next_op)
    for prefix, groups in pairs(next_op[6]) do
      if op[6][prefix] then append_texts(op[6][prefix], groups) else op[6][prefix] = groups end
    end
    for name, by in pairs(next_op[3]) do op[3][name] = add(op[3][name] or 0, by) end
    for name, least in pairs(next_op[4]) do op[4][name] = math.min(op[4][name] or least, least) end
    for name, most in pairs(next_op[5]) do op[5][name] = math.max(op[5][name] or most, most) end
  end,
  increment = function(op, next_op)
    for name, by in pairs(next_op[3]) do op[3][name] = add(op[3][name] or 0, by) end
    if type(op[5]) == 'table' then append_texts(op[5], next_op[5]) end
  end,
}

-- The texts of `groups` that get no place, given the values of their fields, and the number of texts that have a place.
local function further_texts(groups, values, count)
  local further, new = {}, {}
  for i, text in ipairs(groups[2]) do
    if not (values[i] or new[text]) then
      if count < groups[1] then
        count, new[text] = count + 1, true
      else
        further[text] = true
      end
    end
  end
  return further, count
end

-- The number of fields of groups: a state of an earlier version has it in no field.
local function counted_groups(key, prefix)
  local count = 0
  for _, field in ipairs(call('HKEYS', key)) do
    if string.sub(field, 1, #prefix + 1) == prefix .. ':' then count = count + 1 end
  end
  return count
end

-- Merges the numbers of groups without a place into the numbers of all others.
local function bound_groups(key, op, empty)
  for prefix, groups in pairs(op[6]) do
    local fields = {}
    for i, text in ipairs(groups[2]) do fields[i] = prefix .. ':' .. text end
    local values = empty and {} or call_in_pieces('HMGET', key, fields, #fields)
    local before = not empty and (tonumber(call('HGET', key, prefix .. '#') or nil) or counted_groups(key, prefix)) or 0
    local further, count = further_texts(groups, values, before)
    if count > before then op[3][prefix .. '#'] = count - before end
    for text in pairs(further) do
      local field = prefix .. ':' .. text
      local sum, least, most = op[3][field], op[4][field], op[5][field]
      op[3][field], op[4][field], op[5][field] = nil, nil, nil
      if sum then op[3][prefix] = add(op[3][prefix] or 0, sum) end
      if least then op[4][prefix] = math.min(op[4][prefix] or least, least) end
      if most then op[5][prefix] = math.max(op[5][prefix] or most, most) end
    end
  end
end

-- The indexes of `names` by bucket.
local function by_bucket(names, buckets)
  if #names == 1 then return {[bucket_of(names[1], buckets)] = {1}} end
  local groups = {}
  for i = 1, #names do
    local bucket = bucket_of(names[i], buckets)
    local group = groups[bucket]
    if group then group[#group + 1] = i else groups[bucket] = {i} end
  end
  return groups
end

-- Returns the scores of members of a compact ranking of more than `SMALL` members, as far as it has them.
local function stored_counts(key, names, buckets)
  if #names == 1 then
    local count = call('HGET', bucket_key(key, bucket_of(names[1], buckets)), names[1])
    return {count and -count}
  end
  local scores = {}
  for bucket, group in pairs(by_bucket(names, buckets)) do
    local asked = {}
    for i = 1, #group do asked[i] = names[group[i]] end
    local counts = call_in_pieces('HMGET', bucket_key(key, bucket), asked, #asked)
    for i = 1, #group do scores[group[i]] = counts[i] and -counts[i] end
  end
  return scores
end

-- Adds all stored members of a ranking that gets larger than `SMALL` to the changed members. Beside `names`: the numbers of
-- members before (0: no buckets) and after the commit, and the last of the best with its score.
local function enlarge(key, names, scores, empty)
  local changed, held = {}, empty and {} or call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 1, #names do changed[names[i]] = true end
  for i = 1, #held, 2 do
    if not changed[held[i]] then names[#names + 1], scores[#scores + 1] = held[i], tonumber(held[i + 1]) end
  end
  for bucket = 0, buckets_of(#names) - 1 do call('HLEN', bucket_key(key, bucket)) end
  names.before, names.members, names.border, names.last = 0, #names, 0, ''
end

-- Leaves the members without a place in a ranking of `size` members out of an operation, and notes their sum.
local function bound_members(key, op, size, members)
  local texts = op[5][2]
  if size + #texts <= op[5][1] then return end
  local scores = {}
  if members then
    scores = stored_counts(key, texts, buckets_of(members))
  elseif size > 0 then
    scores = call_in_pieces('ZMSCORE', key, texts, #texts)
  end
  local number
  for text in pairs(further_texts(op[5], scores, size)) do
    number, op[3][text] = add(number or 0, op[3][text]), nil
  end
  if number then
    add(tonumber(call('HGET', tag .. ':' .. op[6], op[7]) or nil) or 0, number)
    op.others = number
  end
end

-- Returns the numbers that an operation makes, and their names where there are several: tables cost as much as a command,
-- and most operations of a small commit change one member. A key is `empty` when the commit has deleted it before, and
-- `repeated` when several operations have it.
local read = {
  merge = function(key, op, empty)
    bound_groups(key, op, empty)
    local names = append_names(append_names(append_names({}, op[3]), op[4]), op[5])
    local numbers = empty and {} or call_in_pieces('HMGET', key, names, #names)
    for i = 1, #names do
      local name = names[i]
      local number = numbers[i] and tonumber(numbers[i])
      if numbers[i] and not number then
        error(redis.error_reply('CORRUPT a field of ' .. string.match(key, '^[^}]*}:[^:]*') .. ' is no number, nothing was '
          .. 'written; verify names it: restore it, or delete all keys of its partition to build them anew'))
      end
      numbers[i] = merge(number or nil, op[3][name], op[4][name], op[5][name])
    end
    return numbers, names
  end,
  -- Scores are stored negated: Redis then orders ties by member, ascending. Two commands for a ranking cost less than a
  -- ZINCRBY for each member.
  increment = function(key, op, empty)
    local by, size, best, bound = op[3], 0, {}, type(op[5]) == 'table'
    if (op[4] or bound) and not empty then
      size = call('ZCARD', key)
      if op[4] and size == BEST + 1 then best = call('ZRANGE', key, BEST - 1, BEST, 'WITHSCORES') end
    end
    local members = best[3] == MEMBERS and tonumber(best[4])
    if bound then bound_members(key, op, members or size, members) end
    local name = next(by)
    if name and not next(by, name) and not members then
      local score = not empty and call('ZSCORE', key, name)
      if score or not op[4] or size < SMALL then return add(tonumber(score or nil) or 0, -by[name]) end
    end
    local names, scores, new = append_names({}, by), {}, 0
    if members then
      scores = stored_counts(key, names, buckets_of(members))
    elseif not empty then
      scores = call_in_pieces('ZMSCORE', key, names, #names)
    end
    for i = 1, #names do
      if not scores[i] then new = new + 1 end
      scores[i] = add(tonumber(scores[i] or nil) or 0, -by[names[i]])
    end
    if members then
      names.before, names.members, names.border, names.last = members, members + new, tonumber(best[2]), best[1]
      for bucket = buckets_of(members), buckets_of(members + new) - 1 do
        call('HLEN', bucket_key(key, bucket))
        call('HLEN', bucket_key(key, parent_of(bucket)))
      end
    elseif op[4] and size + new > SMALL then
      enlarge(key, names, scores, empty)
    end
    return scores, names
  end,
  push_recent = function(key, _, empty, repeated)
    local size = empty and 0 or call('ZCARD', key)
    return repeated and math.huge or size
  end,
}

local touch = {
  index = function(key) call('ZCARD', key) end,
  append = function(key) call('XLEN', key) end,
  insert = function(family, op)
    call('ZCARD', family)
    call('ZCARD', family .. ':' .. op[3])
    for _ in pairs(op[4]) do expiring = expiring + 1 end
  end,
  append_lines = function(family, op)
    call('ZCARD', family)
    call('HLEN', family .. ':' .. op[3])
    expiring = expiring + 1
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
  expire_days = function(family, op)
    local outdated = call('ZRANGEBYSCORE', family, '-inf', string.format('(%.0f', op[3]), 'LIMIT', 0, expiring)
    for _, name in ipairs(outdated) do call('HLEN', family .. ':' .. name) end
    return outdated
  end,
}

-- Reused by each operation, up to the count that it passes on.
local changes = {}

local function note_expired(op)
  local field = 'expired:' .. op[2]
  if op[3] > (tonumber(call('HGET', tag, field) or nil) or -math.huge) then
    call('HSET', tag, field, string.format('%.0f', op[3]))
  end
end

-- A day of so many bytes moves to a field of its own: an append copies the whole field.
local DAY_MS, DAY_BYTES = 86400000, 16384

-- The lines that fit into a day, whose last field has so many bytes; counts the others.
local function fitting_lines(key, day, last, lines, most_bytes)
  local size = last + (tonumber(call('HGET', key, day .. '+') or nil) or 0)
  if size + #lines <= most_bytes then return lines end
  local kept, left_out = {}, 0
  for line in string.gmatch(lines, '[^\n]*\n') do
    if size + #line <= most_bytes then
      size, kept[#kept + 1] = size + #line, line
    else
      left_out = left_out + 1
    end
  end
  call('HINCRBY', key, day .. '-', left_out)
  return table.concat(kept)
end

-- Moves the members of a new bucket there.
local function split(key, bucket)
  local from, moved, names = bucket_key(key, parent_of(bucket)), {}, {}
  local held = call('HGETALL', from)
  for i = 1, #held, 2 do
    if bucket_of(held[i], bucket + 1) == bucket then
      names[#names + 1], moved[#moved + 1], moved[#moved + 2] = held[i], held[i], held[i + 1]
    end
  end
  call_in_pieces('HSET', bucket_key(key, bucket), moved, #moved)
  call_in_pieces('HDEL', from, names, #names)
end

-- Writes counts into buckets, and the best members into the sorted set.
local function write_counts(key, scores, names)
  local buckets = buckets_of(names.members)
  if names.before == 0 then
    call('DEL', key)
  else
    for bucket = buckets_of(names.before), buckets - 1 do split(key, bucket) end
  end
  for bucket, group in pairs(by_bucket(names, buckets)) do
    for i = 1, #group do changes[2 * i - 1], changes[2 * i] = names[group[i]], -scores[group[i]] end
    call_in_pieces('HSET', bucket_key(key, bucket), changes, 2 * #group)
  end
  local count = 0
  if names.members > names.before then
    changes[1], changes[2], count = names.members, MEMBERS, 2
  end
  for i = 1, #names do
    if scores[i] < names.border or (scores[i] == names.border and not is_before(names.last, names[i])) then
      changes[count + 1], changes[count + 2] = scores[i], names[i]
      count = count + 2
      -- A sorted set of more than 128 members leaves Redis' compact form, and never returns.
      if count == SMALL - 2 then
        if call('ZADD', key, unpack(changes, 1, count)) > 0 then call('ZREMRANGEBYRANK', key, BEST, -2) end
        count = 0
      end
    end
  end
  if count > 0 then
    if call('ZADD', key, unpack(changes, 1, count)) > 0 then call('ZREMRANGEBYRANK', key, BEST, -2) end
  end
end

local write = {
  put = function(key, op) call('SET', key, op[3]) end,
  delete = function(key, op)
    local members = tonumber(op[3] and redis.pcall('ZSCORE', key, MEMBERS) or nil) or 0
    for bucket = 0, buckets_of(members) - 1 do call('DEL', bucket_key(key, bucket)) end
    call('DEL', key)
  end,
  merge = function(key, _, numbers, names)
    for i = 1, #names do changes[2 * i - 1], changes[2 * i] = names[i], numbers[i] end
    call_in_pieces('HSET', key, changes, 2 * #names)
  end,
  increment = function(key, op, scores, names)
    if op.others then call('HINCRBY', tag .. ':' .. op[6], op[7], op.others) end
    if not names then return call('ZADD', key, scores, (next(op[3]))) end
    if names.members then return write_counts(key, scores, names) end
    for i = 1, #names do changes[2 * i - 1], changes[2 * i] = scores[i], names[i] end
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
  -- The family itself is a sorted set of its timelines, each with a lower bound of its entries' times.
  insert = function(family, op)
    local key, oldest = family .. ':' .. op[3], math.huge
    for _, time in pairs(op[4]) do
      oldest = math.min(oldest, time)
      if op[5] then call('ZREMRANGEBYSCORE', key, time, time) end
    end
    for text, time in pairs(op[4]) do call('ZADD', key, time, text) end
    if oldest < math.huge then call('ZADD', family, 'LT', oldest, op[3]) end
  end,
  -- The family itself is a sorted set of its histories, each with the start of its first day.
  append_lines = function(family, op)
    local key, first = family .. ':' .. op[3], math.huge
    for day, lines in pairs(op[4]) do
      first = math.min(first, tonumber(day))
      local held = call('HGET', key, day) or ''
      lines = fitting_lines(key, day, #held, lines, op[5])
      if #held > DAY_BYTES then
        call('HSET', key, day .. '.' .. call('HINCRBY', key, day .. '#', 1), held)
        call('HINCRBY', key, day .. '+', #held)
        held = ''
      end
      call('HSET', key, day, held .. lines)
    end
    if first < math.huge then call('ZADD', family, 'LT', string.format('%.0f', first * DAY_MS), op[3]) end
  end,
  -- The family may name an empty timeline: `expire` drops it.
  remove = function(family, op) call('ZREM', family .. ':' .. op[3], op[4]) end,
  delete_timeline = function(family, op)
    call('DEL', family .. ':' .. op[3])
    call('ZREM', family, op[3])
  end,
  expire = function(family, op, outdated)
    local before = string.format('(%.0f', op[3])
    note_expired(op)
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
  expire_days = function(family, op, outdated)
    note_expired(op)
    for _, name in ipairs(outdated) do
      local key, first = family .. ':' .. name, math.huge
      for _, field in ipairs(call('HKEYS', key)) do
        local start = tonumber(string.match(field, '^%d+')) * DAY_MS
        if start < op[3] then call('HDEL', key, field) else first = math.min(first, start) end
      end
      if first < math.huge then
        call('ZADD', family, string.format('%.0f', first), name)
      else
        call('ZREM', family, name)
      end
      expiring = expiring - 1
    end
  end,
}

local types = {
  put = 'text', merge = 'numbers', increment = 'a ranking', index = 'an index', push_recent = 'a list', append = 'a log',
  insert = 'a timeline', remove = 'a timeline', expire = 'a timeline', append_lines = 'a history', expire_days = 'a history',
}
-- These leave no key of another type behind.
local replaces = {put = true, delete = true, delete_timeline = true}

require_rights('commit')
local keys, last, repeated, prefix = {}, {}, {}, tag .. ':'
for i = 1, #operations do
  local op = operations[i]
  local kind, key = op[1], prefix .. op[2]
  local before = last[key]
  local before_kind = before and operations[before][1]
  if not checked[kind] then require_rights(kind) end
  if before_kind and types[before_kind] and not replaces[kind] and types[before_kind] ~= types[kind] then
    error(redis.error_reply('WRONGTYPE one commit uses a key as ' .. types[before_kind] .. ' and as ' .. types[kind]
      .. ', nothing was written'))
  end
  if before_kind == kind and combine[kind] then
    combine[kind](operations[before], op)
  else
    keys[i], last[key], repeated[key] = key, i, before and true
  end
end
local results, names, deleted = {}, {}, {}
for i = 1, #operations do
  local op, key = operations[i], keys[i]
  local kind = op[1]
  if kind == 'delete' then deleted[key] = true end
  if key and read[kind] then
    results[i], names[i] = read[kind](key, op, deleted[key], repeated[key])
  elseif touch[kind] and not deleted[key] then
    results[i] = touch[kind](key, op)
  end
end
if ARGV[7] then return {1} end

-- `begun` and `ended` differ when a write fails all the same: nothing is written on top of half a commit. One is counted,
-- the other set: a Redis that lost the end of a transaction in its file keeps the beginning there, and at its next start
-- applies the beginning before the commit that came instead.
begun = call('HINCRBY', tag, 'begun', 1)
for i = 1, #operations do
  local op = operations[i]
  if keys[i] then write[op[1]](keys[i], op, results[i], names[i]) end
end
for name, count in pairs(counters) do call('HINCRBY', tag, 'count:' .. name, count) end
local fields = {'ended', begun}
if record ~= '' and record ~= '0' then fields = {'ended', begun, 'record', record} end
for _, step in ipairs(steps) do
  for name, value in pairs({['offset:'] = step[3], ['time:'] = step[4]}) do
    fields[#fields + 1], fields[#fields + 2] = name .. step[1], string.format('%.0f', value)
  end
end
call('HSET', tag, unpack(fields))
return {1}
