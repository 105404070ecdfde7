-- KEYS[1]: the partition's hash tag. ARGV[1]: the reads. Returns {the partition's hash, answer, answer ...}.
local tag, call = KEYS[1], redis.call
local held = call('HGETALL', tag)
-- Before which time all entries of a timeline are expired, whether they are removed by now or not.
local function expired(key)
  local before = -math.huge
  for i = 1, #held, 2 do
    local family = string.match(held[i], '^expired:(.*)')
    local prefix = family and tag .. ':' .. family .. ':'
    if prefix and string.sub(key, 1, #prefix) == prefix then before = math.max(before, tonumber(held[i + 1])) end
  end
  return before
end
-- So many entries are looked at before it is asked whether they are enough: each may have a megabyte.
local PIECE = 16
local read = {
  value = function(key) return call('GET', key) end,
  fields = function(key) return call('HGETALL', key) end,
  field = function(key, name) return call('HGET', key, name) end,
  top = function(key, n) return n < 1 and {} or call('ZRANGE', key, 0, n - 1, 'WITHSCORES') end,
  newest = function(key, n) return n < 1 and {} or call('ZRANGE', key, 0, n - 1, 'REV', 'WITHSCORES') end,
  members = function(key, first, last, n, descending)
    if n < 1 then return {} end
    first, last = '[' .. first, last == '' and '+' or '(' .. last
    if descending then return call('ZRANGE', key, last, first, 'BYLEX', 'REV', 'LIMIT', 0, n) end
    return call('ZRANGE', key, first, last, 'BYLEX', 'LIMIT', 0, n)
  end,
  since = function(key, after, n)
    return n < 1 and {} or call('XRANGE', key, string.format('(%.0f', after), '+', 'COUNT', n)
  end,
  -- By rank: it costs the same wherever it begins, and however many entries of one time are skipped.
  between = function(key, first, last, n, skip, most_bytes, descending)
    if n < 1 then return {} end
    first = math.max(first, expired(key))
    local order, before = {'WITHSCORES'}, {'-inf', string.format('(%.0f', first)}
    if descending then order, before = {'REV', 'WITHSCORES'}, {string.format('%.0f', last), '+inf'} end
    local start = call('ZCOUNT', key, unpack(before)) + skip
    local found, bytes = {}, 0
    for rank = start, start + n - 1, PIECE do
      local some = call('ZRANGE', key, rank, math.min(rank + PIECE, start + n) - 1, unpack(order))
      for i = 1, #some, 2 do
        local time = tonumber(some[i + 1])
        if bytes >= most_bytes or time < first or time >= last then return found end
        found[#found + 1], found[#found + 2] = some[i], some[i + 1]
        bytes = bytes + #some[i]
      end
      if #some < 2 * PIECE then return found end
    end
    return found
  end,
}
local answers = {held}
for i, wanted in ipairs(cmsgpack.unpack(ARGV[1])) do
  answers[i + 1] = read[wanted[1]](tag .. ':' .. wanted[2], unpack(wanted, 3))
end
return answers
