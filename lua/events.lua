-- Events: messages for the sockets of all hubs, which these send on to their clients.
local events = {}

-- Publish an event for the sockets of all hubs, in the form that python-socketio's Redis manager reads. The same event for the same
-- room is published once in a call, and none while no hub listens.
function events.emit(event, room, data)
  if call_state.listening == nil then call_state.listening = redis.call('PUBSUB', 'NUMSUB', keys.socketio)[2] > 0 end
  if not call_state.listening then return end
  local message = '{"method":"emit","event":"' .. event .. '","data":[' .. data .. '],"binary":false,"namespace":"/",'
    .. '"room":' .. cjson.encode(room) .. ',"skip_sid":null,"callback":null,"host_id":"store"}'
  call_state.told = call_state.told or {}
  if call_state.told[message] then return end
  call_state.told[message] = true
  notifications.publish(keys.socketio, message)
end

-- Return an instant in microseconds as a JSON text with six fractional digits and Z; 'null' for none.
local function instant_json(us)
  if not us then return 'null' end
  local number = tonumber(us)
  return '"' .. string.sub(times.text(math.floor(number / 1000)), 1, 20) .. string.format('%06dZ"', number % 1000000)
end

-- Return an id of 32 hex digits as a JSON text with hyphens; 'null' for none.
local function id_json(id)
  if not id or id == '' then return 'null' end
  return '"' .. names.dashed(id) .. '"'
end

-- Tell a room that its list of jobs, or of providers, has changed.
function events.jobs(room) events.emit('jobs_invalidate', 'room:' .. room, '{}') end

function events.providers(room) events.emit('providers_invalidate', 'room:' .. room, '{}') end

-- Tell a room the status of a task. t: id job room status at started done worker error; position where the task is pending.
function events.status(t)
  events.emit('task_status_event', 'room:' .. t.room, table.concat({'{"id":', id_json(t.id), ',"name":', cjson.encode(t.job),
    ',"room_id":', cjson.encode(t.room), ',"status":"', t.status, '","created_at":', instant_json(t.at),
    ',"started_at":', instant_json(t.started), ',"completed_at":', instant_json(t.done), ',"queue_position":',
    t.position or 'null', ',"worker_id":', id_json(t.worker), ',"error":', t.error and cjson.encode(t.error) or 'null', '}'}))
end

-- Tell a room the progress of a running task. `share` is a number as text; `share` and `message` may be nil.
function events.progress(t, share, message, at)
  events.emit('task_progress_event', 'room:' .. t.room, table.concat({'{"id":', id_json(t.id), ',"name":', cjson.encode(t.job),
    ',"room_id":', cjson.encode(t.room), ',"worker_id":', id_json(t.worker), ',"progress":', share or 'null', ',"message":',
    message and cjson.encode(message) or 'null', ',"progress_at":', instant_json(at), '}'}))
end

-- Tell those who listen to a job that a task of it can be claimed.
function events.available(t)
  events.emit('task_available', 'jobs:' .. t.job, '{"job_name":' .. cjson.encode(t.job) .. ',"room_id":' .. cjson.encode(t.room)
    .. ',"task_id":' .. id_json(t.id) .. '}')
end

return events
