-- @include task
-- @include worker
-- The private indexes of the jobs API by kind; `owner` is what an index is about, `member` what stands in it.
local held_in = {worker_tasks = 'set', worker_providers = 'set', dead_workers = 'set', payload = 'string',
  provider_name = 'string'}  -- all others are sorted sets
local function entry_index(kind, owner, member)
  local single = {later = key_later, heads = key_heads, ownerless = key_ownerless, internal_tasks = key_internal_tasks, runtimes = key_runtimes,
    finished = key_finished, dead = key_dead, workers = key_workers, worker_beats = key_worker_beats,
    dead_workers = key_dead_workers, deleted_jobs = key_deleted_jobs, hung_up = key_hung_up}
  local many = {room_tasks = key_room_tasks, job_tasks = key_job_tasks, queue = key_queue, worker_tasks = key_worker_tasks,
    room_workers = key_room_workers, room_jobs = key_room_jobs, room_providers = key_room_providers,
    worker_providers = key_worker_providers, payload = key_payload, provider_name = key_provider_name}
  if held_in[kind] == 'string' then return many[kind](member) end
  return single[kind] or many[kind](owner)
end
local function entry_listed(kind, owner, member)
  local index = entry_index(kind, owner, member)
  if held_in[kind] == 'string' then return redis.call('EXISTS', index) == 1 end
  if held_in[kind] == 'set' then return redis.call('SISMEMBER', index, member) == 1 end
  return redis.call('ZSCORE', index, member) and true or false
end

local function task_belongs(kind, owner, id)
  if kind == 'payload' then return redis.call('EXISTS', key_task(id)) == 1 end
  local t = read_task(id)
  if not (t and t.room and t.status) then return false end
  local waits = t.status == 'pending'
  local held = t.status == 'claimed' or t.status == 'running'
  if kind == 'room_tasks' then return t.status .. ':' .. t.room == owner end
  if kind == 'job_tasks' then return t.status .. ':' .. t.room .. ':' .. t.job == owner end
  if kind == 'queue' then return waits and not t.due and t.job == owner end
  if kind == 'later' then return waits and t.due end
  if kind == 'worker_tasks' then return held and t.worker == owner end
  if kind == 'internal_tasks' then return held and is_internal(t.job) end
  if kind == 'runtimes' then return held end
  if kind == 'dead' then return t.status == 'failed' and t.max end
  if kind == 'finished' then return not (waits or held) end
  return held and not is_internal(t.job) and not (t.worker and redis.call('EXISTS', key_worker(t.worker)) == 1)  -- ownerless
end

-- A worker stands in the list of its shared rooms and in `*`, or else in those of its other rooms.
local function worker_belongs(kind, owner, id)
  local known = redis.call('EXISTS', key_worker(id)) == 1
  if kind ~= 'room_workers' or not known then return known == (kind ~= 'dead_workers') end
  local shared = redis.call('HEXISTS', key_worker_rooms(id), '@global') == 1
    or redis.call('HEXISTS', key_worker_rooms(id), '@internal') == 1
  if owner == '*' then return shared end
  local room = owner == '@*' and '*' or owner
  return shared == is_shared(room) and redis.call('HEXISTS', key_worker_rooms(id), room) == 1
end

-- Whether a member belongs into an index, by the records of what it names.
local function entry_belongs(kind, owner, member)
  local of_workers = {workers = 1, worker_beats = 1, room_workers = 1, dead_workers = 1, hung_up = 1}
  if of_workers[kind] then return worker_belongs(kind, owner, member) end
  if kind == 'room_jobs' or kind == 'deleted_jobs' then
    local job = redis.call('HMGET', key_job(member), 'id', 'deleted')
    if kind == 'deleted_jobs' then return job[1] and job[2] end
    return job[1] and not job[2] and room_of(member) == owner
  end
  if kind == 'heads' then return redis.call('EXISTS', key_queue(member)) == 1 end
  if kind == 'provider_name' then
    return redis.call('HGET', key_provider(redis.call('GET', key_provider_name(member)) or ''), 'id') == member
  end
  if kind == 'worker_providers' then return redis.call('HGET', key_provider(member), 'worker') == owner end
  if kind == 'room_providers' then
    return redis.call('HEXISTS', key_provider(member), 'id') == 1 and room_of(member) == owner
  end
  return task_belongs(kind, owner, member)
end
