-- Borrow and return in turn: the slot that was lent is returned with the next request. Arguments: secret, file of
-- borrow bodies, one a line, and perhaps the realm that every call names, and a pause before
-- each in ms.
local borrows = {}
local next_one = 0
local held = {}
local headers
local pause_ms = 0

function init(args)
  headers = {["content-type"] = "application/json", ["x-hub-secret"] = args[1], ["x-run-id"] = "bench", ["x-hub-realm"] = args[3]}
  pause_ms = tonumber(args[4] or 0)
  for body in io.lines(args[2]) do
    borrows[#borrows + 1] = wrk.format("POST", "/session/borrow", headers, body)
  end
end

function delay()
  return pause_ms
end

function request()
  local body = table.remove(held)
  if body then return wrk.format("POST", "/session/return", headers, body) end
  next_one = next_one % #borrows + 1
  return borrows[next_one]
end

function response(status, _, body)
  local token = string.match(body, '"leaseToken":"(%d+)"')
  if status ~= 200 or not token then return end
  held[#held + 1] = string.format('{"labelKey":"%s","browserId":"%s","leaseToken":"%s"}',
    string.match(body, '"matchedLabel":"([^"]+)"'), string.match(body, '"browserId":"([^"]+)"'), token)
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format('{"answered":%d,"refused":%d,"broken":%d,"seconds":%.6f,"p99_ms":%.3f}\n',
    summary.requests - e.status, e.status, e.connect + e.read + e.write + e.timeout, summary.duration / 1e6,
    latency:percentile(99) / 1e3))
end
