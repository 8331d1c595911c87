-- Requests of the jobs API. Arguments: token, then `repeat METHOD BODY PATH...`, in turn over the paths, or
-- `tasks WORKER`: claim a task, report it running, report it completed; what counts is how many were completed.
local requests, next_one, moves = {}, 0, {}
local headers, thread
counted, completed, empty = false, 0, 0 -- global: `done` asks the thread for them

function setup(the_only_one)
  thread = the_only_one
end

local function move_on(status, _, body)
  if status ~= 200 then return end
  local state = string.match(body, '"status":"(%a+)"')
  if not state then
    empty = empty + 1
  elseif state == "completed" then
    completed = completed + 1
  else
    local path = "/v1/joblib/tasks/" .. string.match(body, '"id":"([%x-]+)"')
    local to = state == "claimed" and "running" or "completed"
    moves[#moves + 1] = wrk.format("PATCH", path, headers, '{"status":"' .. to .. '"}')
  end
end

function init(args)
  headers = {["content-type"] = "application/json", ["authorization"] = "Bearer " .. args[1]}
  if args[2] == "tasks" then
    counted, response = true, move_on
    requests[1] = wrk.format("POST", "/v1/joblib/tasks/claim", headers, '{"worker_id":"' .. args[3] .. '"}')
  end
  for n = 5, #args do
    requests[#requests + 1] = wrk.format(args[3], args[n], headers, args[4])
  end
end

function request()
  local move = table.remove(moves)
  if move then return move end
  next_one = next_one % #requests + 1
  return requests[next_one]
end

function done(summary)
  local e = summary.errors
  local answered = summary.requests - e.status
  if thread:get("counted") then answered = thread:get("completed") end
  io.write(string.format('{"answered":%d,"refused":%d,"broken":%d,"seconds":%.6f}\n', answered,
    e.status + thread:get("empty"), e.connect + e.read + e.write + e.timeout, summary.duration / 1e6))
end
