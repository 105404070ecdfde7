-- Refuses a server that would lose state. The beginning of claim.lua, and by itself a check without a claim.
local info = redis.call('INFO', 'server', 'memory', 'replication')
local policy = string.match(info, 'maxmemory_policy:([%w-]+)') or ''
if string.find(policy, '^allkeys') then
  return redis.error_reply('MISCONFIGURED this Redis lets go of keys (maxmemory-policy ' .. policy
    .. '); the state would lose counts: set maxmemory-policy noeviction')
end
if string.find(info, 'role:slave', 1, true) then
  return redis.error_reply('MISCONFIGURED this Redis is a replica; what is written to it is lost: name its primary')
end
