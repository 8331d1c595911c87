-- As post.lua, with a pause before each request: path, secret, file, ms.
local requests = {}
local next_one, pause_ms = 0, 0

function init(args)
  local headers = {["content-type"] = "application/json", ["x-hub-secret"] = args[2], ["x-run-id"] = "bench"}
  for body in io.lines(args[3]) do
    requests[#requests + 1] = wrk.format("POST", args[1], headers, body)
  end
  pause_ms = tonumber(args[4])
end

function request()
  next_one = next_one % #requests + 1
  return requests[next_one]
end

function delay()
  return pause_ms
end

function done(summary)
  local e = summary.errors
  io.write(string.format('{"answered":%d,"refused":%d,"broken":%d,"seconds":%.6f}\n', summary.requests - e.status,
    e.status, e.connect + e.read + e.write + e.timeout, summary.duration / 1e6))
end
