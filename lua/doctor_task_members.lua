-- Rules of the doctor for tasks, in the form of those in doctor_members: whether a task belongs to an index.
local doctor_task_members = {}

doctor_task_members.belongs = {}
local belongs = doctor_task_members.belongs

-- Make a rule of a function of the record of a task and the owner of the index; a task without a record belongs to none.
local function of_tasks(rule)
  return function(owner, id)
    local t = tasks.read(id)
    return t and t.room and t.status and rule(t, owner)
  end
end
local function is_known_task(_, id) return redis.call('EXISTS', keys.task(id)) == 1 end
local function is_held(t) return tasks.is_held(t.status) end
belongs.payload, belongs.task_log = is_known_task, is_known_task
belongs.room_tasks = of_tasks(function(t, owner) return t.status .. ':' .. t.room == owner end)
belongs.job_tasks = of_tasks(function(t, owner) return t.status .. ':' .. t.room .. ':' .. t.job == owner end)
belongs.job_queue = of_tasks(function(t, full)
  return t.status == 'pending' and not (t.due or t.after or job_queue.beside(t)) and t.job == full
end)
belongs.later = of_tasks(function(t) return t.status == 'pending' and t.due and not t.after end)
belongs.blocked = of_tasks(function(t) return t.status == 'pending' and t.after end)
belongs.worker_tasks = of_tasks(function(t, worker) return is_held(t) and t.worker == worker end)
belongs.internal_tasks = of_tasks(function(t) return is_held(t) and names.is_internal(t.job) end)
belongs.runtimes, belongs.held_tasks = of_tasks(is_held), of_tasks(is_held)
belongs.silences = of_tasks(function(t) return t.status == 'running' and t.silence end)
belongs.dead = of_tasks(function(t) return t.status == 'failed' and t.max end)
belongs.finished = of_tasks(function(t) return t.status ~= 'pending' and not is_held(t) end)
belongs.ownerless = of_tasks(function(t)
  return is_held(t) and not names.is_internal(t.job) and not (t.worker and redis.call('EXISTS', keys.worker(t.worker)) == 1)
end)
local is_completed = of_tasks(function(t) return t.status == 'completed' end)
function belongs.task_result(owner, id) return redis.call('EXISTS', keys.early_ends(id)) == 1 or is_completed(owner, id) end
function belongs.task_parents(id) return redis.call('HEXISTS', keys.task(id), 'after') == 1 end
function belongs.task_children(id) return chains.is_awaited(id) end
function belongs.settling(_, member) return redis.call('EXISTS', keys.task_children(string.match(member, '^%x*'))) == 1 end
function belongs.unique(_, digest)
  local of = redis.call('HGET', keys.task(redis.call('GET', keys.unique(digest)) or ''), 'unique')
  return redis.call('PTTL', keys.unique(digest)) > 0 or (of and string.match(of, '^%x+') == digest)
end

return doctor_task_members
