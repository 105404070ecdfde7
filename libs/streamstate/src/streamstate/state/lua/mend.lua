-- KEYS[1]: the partition's hash tag. KEYS[2]: never exists, as for a commit. ARGV[1]: the number of the half commit.
-- Returns whether the partition holds the half commit; if so, reads, claims and commits are accepted again.
local begun = redis.call('HGET', KEYS[1], 'begun')
if begun ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'ended', begun)
return 1
