-- KEYS[1]: the partition's hash tag. ARGV: what `between` takes after it; or one argument, commands as msgpack, which
-- are answered as a transaction answers them. A script may read where memory is full, and MULTI is refused.
if #ARGV > 1 then return between(KEYS[1], unpack(ARGV)) end
local answers = {}
for i, command in ipairs(cmsgpack.unpack(ARGV[1])) do
  -- A script cannot run itself: its name, the number of keys and two keys come before what `between` takes.
  local itself = command[1] == 'EVALSHA'
  answers[i] = itself and between(KEYS[1], unpack(command, 6)) or redis.call(unpack(command))
end
return answers
