-- KEYS[1]: the hash tag of a partition that a reset or a restore replaces. KEYS[2]: never exists, as for a commit.
-- ARGV: the number of the replacement, then keys and values of DUMP in turn; an empty value deletes the key.
-- Returns the number of changed keys. The hash's own value comes last, alone, and makes the partition complete.
local tag, call, changed = KEYS[1], redis.call, 0
local begun, ended = unpack(call('HMGET', tag, 'begun', 'ended'))
if begun ~= ARGV[1] or ended == begun then
  return redis.error_reply('REPLACED another reset or restore of ' .. tag .. ' has begun')
end
for i = 2, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    changed = changed + call('UNLINK', ARGV[i])
  else
    call('RESTORE', ARGV[i], 0, ARGV[i + 1], 'REPLACE')
    changed = changed + 1
  end
end
return changed
