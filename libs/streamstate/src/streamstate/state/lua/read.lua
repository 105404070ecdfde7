-- KEYS[1]: the partition's hash tag. ARGV: the further arguments of `counts` or `between`; or one argument, commands as
-- msgpack, answered like a transaction. A full Redis refuses MULTI, and runs a script that only reads.
local function run(tag, ...) return (select('#', ...) == 2 and counts or between)(tag, ...) end
if #ARGV > 1 then return run(KEYS[1], unpack(ARGV)) end
local answers = {}
for i, command in ipairs(cmsgpack.unpack(ARGV[1])) do
  -- A script cannot run itself: skip its name, the number of keys and two keys before its arguments.
  local itself = command[1] == 'EVALSHA'
  answers[i] = itself and run(KEYS[1], unpack(command, 6)) or redis.call(unpack(command))
end
return answers
