-- KEYS[1]: the partition's hash tag. ARGV[1]: the reads. Returns {the partition's hash, answer, answer ...}.
local tag, call = KEYS[1], redis.call
local read = {
  value = function(key) return call('GET', key) end,
  fields = function(key) return call('HGETALL', key) end,
  top = function(key, n) return n < 1 and {} or call('ZRANGE', key, 0, n - 1, 'WITHSCORES') end,
  newest = function(key, n) return n < 1 and {} or call('ZRANGE', key, 0, n - 1, 'REV', 'WITHSCORES') end,
  since = function(key, after, n)
    return n < 1 and {} or call('XRANGE', key, string.format('(%.0f', after), '+', 'COUNT', n)
  end,
  between = function(key, first, last, n, skip)
    local from, to = string.format('%.0f', first), string.format('(%.0f', last)
    return n < 1 and {} or call('ZRANGE', key, from, to, 'BYSCORE', 'LIMIT', skip, n, 'WITHSCORES')
  end,
}
local answers = {call('HGETALL', tag)}
for i, wanted in ipairs(cmsgpack.unpack(ARGV[1])) do
  answers[i + 1] = read[wanted[1]](tag .. ':' .. wanted[2], unpack(wanted, 3))
end
return answers
