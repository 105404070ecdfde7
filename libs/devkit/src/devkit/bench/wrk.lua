-- wrk -s wrk.lua URL -- PATHS RATE TALLY
--
-- PATHS  a file with one path a line; they are asked for in turn
-- RATE   requests a second over all connections of a thread; 0: each connection asks as soon as it has its answer
-- TALLY  1 counts the answers that are 200 and those by which a saturated server refuses (503, and 504 when the
--        deadline passed); it times the latter, which is exact with one connection a thread only: an answer does
--        not tell which request it belongs to
--
-- The last line of the output is a JSON object; latencies are in milliseconds.

local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long ns; } timespec; int clock_gettime(int, timespec *);")

local MONOTONIC = 1
local moment = ffi.new("timespec")
local threads = {}
local requests, at, asked = {}, 0, 0

ok, refused = 0, {}

local function now()
  ffi.C.clock_gettime(MONOTONIC, moment)
  return tonumber(moment.s) * 1000 + tonumber(moment.ns) / 1e6
end

-- Each request takes the next slot of one schedule: after a stall the missed ones follow at once.
local function paced(rate)
  local due = now()
  return function()
    due = due + 1000 / rate
    return math.max(0, due - now())
  end
end

local function tallied(status)
  if status == 200 then
    ok = ok + 1
  elseif status == 503 or status == 504 then
    refused[#refused + 1] = now() - asked
  end
end

function setup(thread)
  threads[#threads + 1] = thread
end

function init(arguments)
  for path in io.lines(arguments[1]) do
    requests[#requests + 1] = wrk.format("GET", path)
  end
  local rate = tonumber(arguments[2])
  if rate > 0 then
    delay = paced(rate)
  end
  if arguments[3] == "1" then
    response = tallied
  end
end

function request()
  at = at % #requests + 1
  asked = now()
  return requests[at]
end

function done(summary, latency)
  local answered, times = 0, {}
  for _, thread in ipairs(threads) do
    answered = answered + thread:get("ok")
    for _, time in ipairs(thread:get("refused")) do
      times[#times + 1] = time
    end
  end
  table.sort(times)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "bad": %d, "lost": %d,'
      .. ' "ok": %d, "refused": %d, "refused_p99_ms": %f}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    answered, #times, times[math.ceil(#times * 0.99)] or 0
  ))
end
