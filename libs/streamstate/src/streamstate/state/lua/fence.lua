-- KEYS[1]: the partition's hash tag. KEYS[2]: never exists, as for a commit. ARGV[1]: the number of a record of releases.
-- From here on, commits by an earlier record are refused. Returns the partition's hash: names and values in turn.
local tag, call = KEYS[1], redis.call
if call('HGET', tag, 'begun') ~= call('HGET', tag, 'ended') then
  return redis.error_reply('INCOMPLETE a commit or a reset stopped half way')
end
-- The owner of an unclaimed partition reads the record after its claim.
if call('HGET', tag, 'epoch') and tonumber(call('HGET', tag, 'record') or 0) < tonumber(ARGV[1]) then
  call('HSET', tag, 'record', ARGV[1])
end
return call('HGETALL', tag)
