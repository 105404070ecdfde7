-- Takes tokens from a bucket that holds a second's worth and fills evenly: so many a second are given, whoever asks.
-- KEYS: the bucket. ARGV: tokens a second, tokens that are needed, tokens that are taken if there are so many.
-- A bucket is taken from when it has what is needed, or is full: its tokens may then be fewer than none.
-- Returns the tokens given (0: too few), those left, and the milliseconds until there are enough.
local rate, needed, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local stored = redis.call('HMGET', KEYS[1], 'left', 'at')
local left, at = tonumber(stored[1]) or rate, tonumber(stored[2]) or now
left = math.min(rate, left + math.max(0, now - at) * rate / 1000)
local enough = math.min(needed, rate)
local given = 0
if left >= enough then
  given = math.max(needed, math.min(wanted, math.floor(left)))
  left = left - given
end
redis.call('HSET', KEYS[1], 'left', string.format('%.3f', left), 'at', string.format('%d', math.max(now, at)))
redis.call('PEXPIRE', KEYS[1], math.ceil((rate - left) * 1000 / rate) + 1000)
return {given, math.floor(left), math.ceil(math.max(0, enough - left) * 1000 / rate)}
