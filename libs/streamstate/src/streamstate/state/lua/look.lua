-- KEYS: a partition's hash tag, then keys of it. Returns {the partition's hash, {type, value} ...}.
local call = redis.call
local read = {
  string = function(key) return call('GET', key) end,
  hash = function(key) return call('HGETALL', key) end,
  zset = function(key) return call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  stream = function(key) return call('XRANGE', key, '-', '+') end,
}
local answers = {call('HGETALL', KEYS[1])}
for i = 2, #KEYS do
  local kind = call('TYPE', KEYS[i]).ok
  answers[i] = {kind, read[kind] and read[kind](KEYS[i]) or ''}
end
return answers
