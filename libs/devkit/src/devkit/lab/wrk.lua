-- wrk -s wrk.lua URL -- PATHS RATE TALLY
--
-- PATHS  a file with one path a line, requested in turn
-- RATE   requests a second over all connections; 0: each connection sends its next request after an answer
-- TALLY  1 counts the refusals of a saturated server: 503, and 504 after the deadline
--
-- The last line of the output is a JSON object; latencies are in milliseconds.

local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long ns; } timespec; int clock_gettime(int, timespec *);")

local MONOTONIC = 1
local moment = ffi.new("timespec")
local requests, at, thread = {}, 0, nil

refused = 0

local function now()
  ffi.C.clock_gettime(MONOTONIC, moment)
  return tonumber(moment.s) * 1000 + tonumber(moment.ns) / 1e6
end

-- Each request takes the next slot of one schedule: the slots that a stall missed follow at once.
local function paced(rate)
  local due = now()
  return function()
    due = due + 1000 / rate
    return math.max(0, due - now())
  end
end

local function tallied(status)
  if status == 503 or status == 504 then
    refused = refused + 1
  end
end

function setup(only)
  thread = only
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
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "bad": %d, "lost": %d, "refused": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout, thread:get("refused")
  ))
end
