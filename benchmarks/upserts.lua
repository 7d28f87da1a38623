-- wrk: each thread posts the lines of a file of its own, from a line of its own on; what came of it goes to standard error as one
-- line of JSON. Arguments: the folder of the files, then each thread's first line.
local threads = {}

function setup(thread)
  thread:set("number", #threads)
  table.insert(threads, thread)
end

function init(arguments)
  bodies, sent, failed = {}, 0, 0
  for line in io.lines(arguments[1] .. "/" .. number .. ".jsonl") do
    bodies[#bodies + 1] = line
  end
  start = tonumber(arguments[2 + number])
end

function request()
  sent = sent + 1
  local body = bodies[(start + sent - 1) % #bodies + 1]
  return wrk.format("POST", nil, {["Content-Type"] = "application/json"}, body)
end

function response(status)
  if status ~= 200 then
    failed = failed + 1
  end
end

function done(summary, latency, requests)
  local sent, failures = {}, 0
  for _, thread in ipairs(threads) do
    table.insert(sent, thread:get("sent"))
    failures = failures + thread:get("failed")
  end
  local errors = summary.errors
  io.stderr:write(string.format(
    '{"requests": %d, "seconds": %.6f, "p50": %.6f, "p99": %.6f, "failed": %d, "sent": [%s]}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6, latency:percentile(99) / 1e6,
    failures + errors.connect + errors.read + errors.write + errors.timeout, table.concat(sent, ", ")))
end
