-- Rules of the doctor: whether a member belongs to an index. The table `belongs` has a rule for each kind of index; a rule is given the
-- owner of the index (a label, run, node, room, worker or task; '' where there is only one index of the kind) and the member.
local doctor_members = {}

doctor_members.belongs = {}
local belongs = doctor_members.belongs

local function is_node(_, id) return redis.call('SISMEMBER', keys.nodes, id) == 1 end
belongs.beats, belongs.draining, belongs.drain_deadlines, belongs.suspects = is_node, is_node, is_node, is_node

local function is_slot_of(part, slot) return redis.call('HGET', keys.slot(slot), 'part') == part end
belongs.node_slots, belongs.orders = is_slot_of, is_slot_of

function belongs.unfresh(_, slot) return redis.call('HEXISTS', keys.slot(slot), 'owed') == 1 end
function belongs.unwell(_, slot) return holds.of(slot) end

local HELD = {node = 'unwell', operator = 'barred'}
function belongs.node_holds(part, field)
  local by, slot = string.match(field, '^(%l+):(.+)$')
  return HELD[by] and is_slot_of(part, slot) and redis.call('HEXISTS', keys.slot(slot), HELD[by]) == 1
end

function belongs.pool_slots(label, slot) return redis.call('HGET', keys.slot(slot), 'pool') == label end

-- Return whether a slot is lent and a field of its record has this value.
local function is_lent(slot, field, value)
  local record = redis.call('HMGET', keys.slot(slot), 'place', field)
  return record[1] == 'lent' and record[2] == value
end
function belongs.lent(part, slot) return is_lent(slot, 'part', part) end
function belongs.lease_limits(_, slot) return is_lent(slot, 'limited', '1') end
function belongs.deadlines(_, slot) return is_lent(slot, 'place', 'lent') or redis.call('EXISTS', keys.session(slot)) == 1 end
function belongs.in_flight(label, slot)
  return redis.call('HGET', keys.session(slot), 'labelKey') == label or is_lent(slot, 'label', label)
end
function belongs.served(label, slot)
  local record = redis.call('HMGET', keys.slot(slot), 'place', 'pool')
  return record[1] == 'lent' and record[2] and string.sub(record[2] .. ':', 1, #label + 1) == label .. ':'
    and redis.call('HEXISTS', keys.caps, 'served:' .. label) == 1
end
function belongs.run(run, slot) return redis.call('HGET', keys.session(slot), 'runId') == run or is_lent(slot, 'run', run) end

local function is_worker(_, id) return redis.call('EXISTS', keys.worker(id)) == 1 end
belongs.workers, belongs.worker_beats, belongs.hung_up = is_worker, is_worker, is_worker
function belongs.dead_workers(owner, id) return not is_worker(owner, id) end

-- Return whether a worker belongs to the list of a room: a worker with jobs in a shared room stands in the lists of its shared rooms
-- and in `*`, any other worker in the lists of its rooms.
function belongs.room_workers(owner, id)
  if not is_worker(owner, id) then return false end
  local links = redis.call('HMGET', keys.worker_rooms(id), '@global', '@internal')
  local shared = (links[1] or links[2]) and true or false
  if owner == '*' then return shared end
  local room = owner == '@*' and '*' or owner
  return shared == workers.is_shared(room) and redis.call('HEXISTS', keys.worker_rooms(id), room) == 1
end

function belongs.room_jobs(room, full)
  local job = redis.call('HMGET', keys.job(full), 'id', 'deleted')
  return job[1] and not job[2] and names.room_of(full) == room
end
function belongs.deleted_jobs(_, full)
  local job = redis.call('HMGET', keys.job(full), 'id', 'deleted')
  return job[1] and job[2]
end

function belongs.worker_providers(worker, full) return redis.call('HGET', keys.provider(full), 'worker') == worker end
function belongs.room_providers(room, full)
  return names.room_of(full) == room and redis.call('HEXISTS', keys.provider(full), 'id') == 1
end
function belongs.provider_name(_, id)
  local full = redis.call('GET', keys.provider_name(id))
  return full and redis.call('HGET', keys.provider(full), 'id') == id
end

function belongs.heads(_, full) return redis.call('EXISTS', keys.job_queue(full)) == 1 end
function belongs.schedules(_, id) return redis.call('EXISTS', keys.schedule(id)) == 1 end
function belongs.room_schedules(room, name) return redis.call('EXISTS', keys.schedule(room .. ':' .. name)) == 1 end

return doctor_members
