-- KEYS[1]: the partition's hash tag. KEYS[2]: never exists, as for a commit. ARGV: topic, offset, reason.
-- Returns the stored offset when it is behind the record, with nothing written, else nil.
local tag, call = KEYS[1], redis.call
local topic, offset, reason = ARGV[1], ARGV[2], ARGV[3]
if call('HGET', tag, 'begun') ~= call('HGET', tag, 'ended') then
  return redis.error_reply('INCOMPLETE a commit or a reset stopped half way')
end
local stored = call('HGET', tag, 'offset:' .. topic)
if stored and tonumber(stored) > tonumber(offset) then return stored end
call('HSET', tag, 'skip:' .. topic .. ':' .. offset, reason)
-- The owner has to claim again, which returns the skip: none of its further commits may have the record.
call('HINCRBY', tag, 'epoch', 1)
return false
