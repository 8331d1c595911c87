-- The private indexes of the jobs API, as the doctor sees them.
local entries = {}

-- The private indexes of the jobs API by kind; `owner` is what an index is about, `member` what stands in it.
entries.held_in = {worker_tasks = 'set', worker_providers = 'set', dead_workers = 'set', task_parents = 'set', task_children = 'set',
  payload = 'string', task_result = 'string', task_log = 'string', provider_name = 'string', unique = 'string'}  -- others: zsets

function entries.of(kind, owner, member)
  local key = keys[kind]
  if type(key) == 'string' then return key end
  return key(entries.held_in[kind] == 'string' and member or owner)
end

function entries.lists(kind, owner, member)
  local index, how = entries.of(kind, owner, member), entries.held_in[kind]
  if how == 'string' then return redis.call('EXISTS', index) == 1 end
  if how == 'set' then return redis.call('SISMEMBER', index, member) == 1 end
  return redis.call('ZSCORE', index, member) and true or false
end

local function task_belongs(kind, owner, id)
  if kind == 'payload' or kind == 'task_log' then return redis.call('EXISTS', keys.task(id)) == 1 end
  if kind == 'task_result' and redis.call('EXISTS', keys.early_ends(id)) == 1 then return true end
  local t = tasks.read(id)
  if not (t and t.room and t.status) then return false end
  if kind == 'task_result' then return t.status == 'completed' end
  local waits, held = t.status == 'pending', tasks.is_held(t.status)
  if kind == 'room_tasks' then return t.status .. ':' .. t.room == owner end
  if kind == 'job_tasks' then return t.status .. ':' .. t.room .. ':' .. t.job == owner end
  if kind == 'job_queue' then return waits and not (t.due or t.after) and t.job == owner end
  if kind == 'later' then return waits and t.due and not t.after end
  if kind == 'blocked' then return waits and t.after end
  if kind == 'worker_tasks' then return held and t.worker == owner end
  if kind == 'internal_tasks' then return held and names.is_internal(t.job) end
  if kind == 'runtimes' or kind == 'held_tasks' then return held end
  if kind == 'silences' then return t.status == 'running' and t.silence end
  if kind == 'dead' then return t.status == 'failed' and t.max end
  if kind == 'finished' then return not (waits or held) end
  return held and not names.is_internal(t.job) and not (t.worker and redis.call('EXISTS', keys.worker(t.worker)) == 1)  -- ownerless
end

-- A worker stands in the list of its shared rooms and in `*`, or else in those of its other rooms.
local function worker_belongs(kind, owner, id)
  local known = redis.call('EXISTS', keys.worker(id)) == 1
  if kind ~= 'room_workers' or not known then return known == (kind ~= 'dead_workers') end
  local links = redis.call('HMGET', keys.worker_rooms(id), '@global', '@internal')
  local shared = (links[1] or links[2]) and true or false
  if owner == '*' then return shared end
  local room = owner == '@*' and '*' or owner
  return shared == workers.is_shared(room) and redis.call('HEXISTS', keys.worker_rooms(id), room) == 1
end

-- Whether a member belongs into an index, by the records of what it names.
function entries.belongs(kind, owner, member)
  local of_workers = {workers = 1, worker_beats = 1, room_workers = 1, dead_workers = 1, hung_up = 1}
  if of_workers[kind] then return worker_belongs(kind, owner, member) end
  if kind == 'room_jobs' or kind == 'deleted_jobs' then
    local job = redis.call('HMGET', keys.job(member), 'id', 'deleted')
    if kind == 'deleted_jobs' then return job[1] and job[2] end
    return job[1] and not job[2] and names.room_of(member) == owner
  end
  if kind == 'heads' then return redis.call('EXISTS', keys.job_queue(member)) == 1 end
  local full = kind == 'provider_name' and redis.call('GET', keys.provider_name(member))
  if full then return redis.call('HGET', keys.provider(full), 'id') == member end
  if kind == 'task_parents' then return redis.call('HEXISTS', keys.task(owner), 'after') == 1 end
  if kind == 'task_children' then return chains.is_awaited(owner) end
  if kind == 'settling' then return redis.call('EXISTS', keys.task_children(string.match(member, '^%x*'))) == 1 end
  if kind == 'schedules' then return redis.call('EXISTS', keys.schedule(member)) == 1 end
  if kind == 'room_schedules' then return redis.call('EXISTS', keys.schedule(owner .. ':' .. member)) == 1 end
  if kind == 'unique' then
    local of = redis.call('HGET', keys.task(redis.call('GET', keys.unique(member)) or ''), 'unique')
    return redis.call('PTTL', keys.unique(member)) > 0 or (of and string.match(of, '^%x+') == member)
  end
  if kind == 'worker_providers' then return redis.call('HGET', keys.provider(member), 'worker') == owner end
  local of_room = names.room_of(member) == owner
  if kind == 'room_providers' then return of_room and redis.call('HEXISTS', keys.provider(member), 'id') == 1 end
  return task_belongs(kind, owner, member)
end

return entries
