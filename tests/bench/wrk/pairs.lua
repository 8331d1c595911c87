-- Borrow and return in turn: whatever has been lent is given back with the next request. Arguments: secret, file of
-- borrow bodies, one a line.
local borrows = {}
local next_one = 0
local held = {}
local headers

function init(args)
  headers = {["content-type"] = "application/json", ["x-hub-secret"] = args[1], ["x-run-id"] = "bench"}
  for body in io.lines(args[2]) do
    borrows[#borrows + 1] = wrk.format("POST", "/session/borrow", headers, body)
  end
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

function done(summary)
  local e = summary.errors
  io.write(string.format('{"answered":%d,"refused":%d,"broken":%d,"seconds":%.6f}\n', summary.requests - e.status,
    e.status, e.connect + e.read + e.write + e.timeout, summary.duration / 1e6))
end
