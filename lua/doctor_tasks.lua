-- Checks and repairs of tasks: each must stand in the lists of its status, and in the index in which its next step is found.
local doctor_tasks = {}
local place_in = doctor_indexes.place_in
local STAGES = {pending = 'waits', claimed = 'held', running = 'held', completed = 'over', failed = 'over', cancelled = 'over'}
local function stage_of(t) return t and t.room and t.at and t.user and STAGES[t.status or ''] end

-- Return where a pending task must stand. In its queue it must also count under the limits of its job.
local function place_of(t) return t.after and keys.blocked or t.due and keys.later or job_queue.beside(t) or keys.job_queue(t.job) end
local function is_uncounted(t)
  local queue = keys.job_queue(t.job)
  return place_of(t) == queue and redis.call('ZSCORE', queue, t.id) and not doctor_limit_members.is_counted(t)
end

function doctor_tasks.check(say, _, id)
  local t = tasks.read(id)
  local stage, at = stage_of(t), t and tonumber(t.at or '')
  if not stage then return say('record broken', redis.call('EXISTS', keys.task(id)) == 1) end
  say('not of its room', place_in(keys.room_tasks(t.status .. ':' .. t.room), id) ~= at)
  say('not of its job', place_in(keys.job_tasks(t.status .. ':' .. t.room .. ':' .. t.job), id) ~= at)
  if stage == 'waits' then
    say('waits nowhere', not redis.call('ZSCORE', place_of(t), id))
    say('waits in vain', t.after and not chains.has_open(t))
    say('not under its limits', is_uncounted(t))
  elseif stage == 'held' then
    say('not counted', place_in(keys.held_tasks, id) ~= at)
    say('not under its limits', not doctor_limit_members.is_counted(t))
    doctor_held_tasks.check(say, t)
  else
    say('never forgotten', not (t.done and redis.call('ZSCORE', keys.finished, id)))
  end
  doctor_task_slots.check(say, t)
end

local function drop(id, t)
  if t and STAGES[t.status or ''] ~= 'over' then tasks.uncount(t) end
  redis.call('DEL', keys.task(id), keys.payload(id), keys.task_result(id), keys.task_log(id), keys.task_parents(id))
  if not t or redis.call('HEXISTS', keys.job(t.job), 'id') == 0 then return end
  redis.call('HINCRBY', keys.job(t.job), 'tasks', -1)
  if t.status == 'pending' and (t.due or t.after or job_queue.beside(t)) then redis.call('HINCRBY', keys.job(t.job), 'later', -1) end
end

local function repair_waiting(t)
  if t.after then
    chains.look_again(t, outcomes.close)
  elseif t.due then
    redis.call('ZADD', keys.later, t.due, t.id)
  elseif is_uncounted(t) or not redis.call('ZSCORE', place_of(t), t.id) then
    local counts = t.limited
    job_queue.leave(t)
    if counts then redis.call('HINCRBY', keys.job(t.job), 'later', -1) end
    job_queue.enter(t)
    if not t.limited then events.available(t) end
  end
end

-- Put a task where its record says that it stands; delete one whose record is incomplete. A task that a removed worker holds fails, or
-- gets another attempt.
function doctor_tasks.repair(id)
  local t = tasks.read(id)
  if not stage_of(t) then return drop(id, t) end
  tasks.list_under(t, t.status)
  doctor_task_slots.repair(t)
  if t.status == 'pending' then return repair_waiting(t) end
  if tasks.is_held(t.status) then return doctor_held_tasks.repair(t) end
  redis.call('HSETNX', keys.task(id), 'done', numbers.digits(store.now_us))
  redis.call('ZADD', keys.finished, redis.call('HGET', keys.task(id), 'done'), id)
end

return doctor_tasks
