-- Checks and repairs of tasks: each must stand in the lists of its status, and in the index in which its next step is found.
local doctor_tasks = {}
local place_in = doctor_indexes.place_in

local STAGES = {pending = 'waits', claimed = 'held', running = 'held', completed = 'over', failed = 'over', cancelled = 'over'}
local function stage_of(t) return t and t.room and t.at and t.user and STAGES[t.status or ''] end
-- Return the index of deadlines in which a held task without a worker stands; false for a held task with a worker.
local function ends_in(t) return names.is_internal(t.job) and keys.internal_tasks or not t.worker and keys.ownerless end

local function check_holder(say, t)
  if ends_in(t) then return say('endless', not redis.call('ZSCORE', ends_in(t), t.id)) end
  local listed = redis.call('SISMEMBER', keys.worker_tasks(t.worker), t.id) == 1
  if redis.call('EXISTS', keys.worker(t.worker)) == 1 then return say('not of its worker', not listed) end
  local ends = listed and redis.call('SISMEMBER', keys.dead_workers, t.worker) == 1  -- what the worker held is being failed
  say('held by the dead', not (ends or redis.call('ZSCORE', keys.ownerless, t.id)))
end

function doctor_tasks.check(say, _, id)
  local t = tasks.read(id)
  local stage, at = stage_of(t), t and tonumber(t.at or '')
  if not stage then return say('record broken', redis.call('EXISTS', keys.task(id)) == 1) end
  say('not of its room', place_in(keys.room_tasks(t.status .. ':' .. t.room), id) ~= at)
  say('not of its job', place_in(keys.job_tasks(t.status .. ':' .. t.room .. ':' .. t.job), id) ~= at)
  if stage == 'waits' then
    local place = t.after and keys.blocked or t.due and keys.later or keys.job_queue(t.job)
    say('waits nowhere', not redis.call('ZSCORE', place, id))
    say('waits in vain', t.after and not chains.has_open(t))
  elseif stage == 'held' then
    say('not counted', place_in(keys.held_tasks, id) ~= at)
    check_holder(say, t)
  else
    say('never forgotten', not (t.done and redis.call('ZSCORE', keys.finished, id)))
  end
end

local function drop(id, t)
  if t and STAGES[t.status or ''] ~= 'over' then tasks.uncount(t) end
  redis.call('DEL', keys.task(id), keys.payload(id), keys.task_result(id), keys.task_log(id), keys.task_parents(id))
  if not t or redis.call('HEXISTS', keys.job(t.job), 'id') == 0 then return end
  redis.call('HINCRBY', keys.job(t.job), 'tasks', -1)
  if t.status == 'pending' and (t.due or t.after) then redis.call('HINCRBY', keys.job(t.job), 'later', -1) end
end

local function repair_waiting(t)
  if t.after then
    chains.look_again(t, outcomes.close)
  elseif t.due then
    redis.call('ZADD', keys.later, t.due, t.id)
  elseif not job_queue.position_of(t) then
    job_queue.enter(t)
    events.available(t)
  end
end

local function repair_held(t)
  if ends_in(t) then
    redis.call('ZADD', ends_in(t), 'NX', store.clock_ms, t.id)
  elseif redis.call('EXISTS', keys.worker(t.worker)) == 1 then
    redis.call('SADD', keys.worker_tasks(t.worker), t.id)
    if t.status == 'running' and not redis.call('ZSCORE', keys.silences, t.id) then progress.listen(t) end
  elseif redis.call('SISMEMBER', keys.dead_workers, t.worker) == 0 then
    outcomes.fail(t, 'Worker disconnected', 'doctor:' .. t.id)
    redis.call('HDEL', keys.task(t.id), 'worker')
    jobs.check_orphan(t.job)
  end
end

-- Put a task where its record says that it stands; delete one whose record is incomplete. A task that a removed worker holds fails, or
-- gets another attempt.
function doctor_tasks.repair(id)
  local t = tasks.read(id)
  if not stage_of(t) then return drop(id, t) end
  tasks.list_under(t, t.status)
  if t.status == 'pending' then return repair_waiting(t) end
  if tasks.is_held(t.status) then return repair_held(t) end
  redis.call('HSETNX', keys.task(id), 'done', numbers.digits(store.now_us))
  redis.call('ZADD', keys.finished, redis.call('HGET', keys.task(id), 'done'), id)
end

return doctor_tasks
