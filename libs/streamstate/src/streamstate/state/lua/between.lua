-- Some entries of a timeline of the partition with this hash tag, as texts and times in turn. descending: '1'.
local function between(tag, timeline, first, last, n, skip, most_bytes, descending)
  local call = redis.call
  first, last, n, skip, most_bytes = tonumber(first), tonumber(last), tonumber(n), tonumber(skip), tonumber(most_bytes)
  if n < 1 then return {} end
  local key, descends = tag .. ':' .. timeline, tostring(descending) == '1'
  -- All entries before `expired` are expired, removed or not. Names of families may contain colons.
  for colon in string.gmatch(timeline, '():') do
    local expired = call('HGET', tag, 'expired:' .. string.sub(timeline, 1, colon - 1))
    if expired then first = math.max(first, tonumber(expired)) end
  end
  -- Entries read before checking the size of the answer: each may have a megabyte.
  local PIECE = 16
  -- By rank: the cost is independent of the start, and of the number of skipped entries of one time.
  local order, before = {'WITHSCORES'}, {'-inf', string.format('(%.0f', first)}
  if descends then order, before = {'REV', 'WITHSCORES'}, {string.format('%.0f', last), '+inf'} end
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
end
