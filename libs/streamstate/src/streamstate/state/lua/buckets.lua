-- A compact ranking is a sorted set, as any ranking, of up to `SMALL` members. With more members, hashes have all counts: the
-- buckets, by linear hashing, so that the number of members says how many buckets there are and which bucket has a member. The
-- sorted set then has the `BEST` members, and last the number of all members, as the only positive score. Its member is no text.
-- A member outside the best gets among them only when its own count rises: counts never fall.
local SMALL, BEST, BUCKET, MEMBERS = 128, 64, 100, '\255'

local function buckets_of(members) return math.ceil(members / BUCKET) end

local function bucket_key(key, bucket)
  local colon = string.find(key, ':', string.find(key, '}', 1, true) + 2, true) or #key + 1
  return string.sub(key, 1, colon - 1) .. '.' .. bucket .. string.sub(key, colon)
end

-- Users share members.
local hashes = {}
local function bucket_of(member, buckets)
  local hash = hashes[member]
  if not hash then
    hash = tonumber(string.sub(redis.sha1hex(member), 1, 7), 16)
    hashes[member] = hash
  end
  local size = 1
  while size < buckets do size = 2 * size end
  local bucket = hash % size
  return bucket < buckets and bucket or bucket - size / 2
end

-- The bucket whose members a new bucket shares.
local function parent_of(bucket)
  local size = 1
  while 2 * size <= bucket do size = 2 * size end
  return bucket - size
end

-- Whether a text is before another text in byte order: Lua compares by the locale of the server.
local function is_before(text, other)
  for i = 1, math.min(#text, #other) do
    local byte, its = string.byte(text, i), string.byte(other, i)
    if byte ~= its then return byte < its end
  end
  return #text < #other
end

-- The members of a compact ranking of the partition with this hash tag, and their counts, negated or not, in turn.
local function counts(tag, ranking, n)
  local key, found = tag .. ':' .. ranking, {}
  local members = redis.call('ZSCORE', key, MEMBERS)
  if not members then return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
  for bucket = 0, buckets_of(members) - 1 do
    if #found >= 2 * n then break end
    for _, each in ipairs(redis.call('HGETALL', bucket_key(key, bucket))) do found[#found + 1] = each end
  end
  return found
end
