-- Slots of tasks: what a job says that its tasks need. A claim takes task and slots in one step; the slots are a bundle, whose leases
-- last while the worker is heard and end with the task, however it ends. A lease that ends before loses its task the attempt.
local task_slots = {}

-- Return what the tasks of a job need, as of bundle_wishes.read; nil for nothing.
function task_slots.wish(full)
  if not store.job_terms then return nil end
  call_state.needs = call_state.needs or {}
  if call_state.needs[full] == nil then
    call_state.needs[full] = bundle_wishes.read(redis.call('HGET', keys.job(full), 'needs') or '') or false
  end
  return call_state.needs[full] or nil
end

-- Return the bundle whose leases say that they belong to a task, as after a loss of the store; nil for none.
function task_slots.of_task(t)
  for _, slot in ipairs(store.job_terms and redis.call('ZRANGE', keys.run(t.id), 0, -1) or {}) do
    local holder = redis.call('HGET', keys.session(slot), 'holder')
    if bundles.task_of(holder) == t.id then return bundles.of_slot(slot) end
  end
end

-- Note that a task has the slots of a bundle.
function task_slots.bind(t, bundle)
  t.slots = bundle
  redis.call('HSET', keys.task(t.id), 'slots', bundle)
  redis.call('HSET', keys.worker(t.worker), 'lends', '1')
end

-- Return the holder of a lease as JSON, with the task to which the lease belongs.
local function of_task(holder, t) return string.sub(holder, 1, -2) .. ',"task":"' .. t.id .. '"}' end

-- Lend slots that were taken out of their lists to a task. a: holder and ttl_ms of the leases.
function task_slots.lend(t, wish, found, a)
  local terms = {id = false, run = t.id, holder = of_task(a.holder, t), ttl_ms = a.ttl_ms, idle_ms = '0', fingerprint = '', attempt = '',
    keep_s = '0'}
  task_slots.bind(t, bundle_handoffs.grant(terms, wish, found, 'grant.lent'))
end

-- Let a task have the bundle for which its worker has waited.
function task_slots.adopt(t, bundle)
  for _, each in ipairs(bundles.live(bundle)) do
    local holder = of_task(redis.call('HGET', keys.session(each[1]), 'holder'), t)
    redis.call('ZREM', keys.run(redis.call('HGET', keys.session(each[1]), 'runId') or ''), each[1])
    redis.call('HSET', keys.session(each[1]), 'holder', holder, 'runId', t.id)
    redis.call('HSET', keys.slot(each[1]), 'holder', holder, 'run', t.id)
    leases.note_run(each[1], t.id)
    orders.changed(redis.call('HGET', keys.slot(each[1]), 'part'))
  end
  task_slots.bind(t, bundle)
end

-- End the leases of a bundle, because its task has ended or there is none for it. With `grace` their worker did not say so, and may still
-- use the slots for the grace of early ends.
function task_slots.release(bundle, why, grace)
  call_state.task_ends = true
  for _, each in ipairs(bundles.live(bundle)) do
    local record = slots.read(each[1])
    record.token = each[2]
    if grace then revocations.revoke(each[1], revocations.grace_ms(), 'task') end
    if record.place == 'lent' then releases.release(each[1], record, '120', 'grant.returned', why) end
  end
  call_state.task_ends = nil
  bundles.note_ended(bundle)
  serving.opened()
end

-- Give a bundle back that belongs to no task, as no claim uses it.
function task_slots.give_up(bundle)
  if bundle ~= '' and waited_slots.is_free(bundle) then task_slots.release(bundle, 'no-task') end
end

-- Take its slots from a task that has ended, or goes back into its queue.
function task_slots.let_go(t)
  task_slots.release(t.slots, 'task-over', not call_state.by_worker)
  redis.call('HDEL', keys.task(t.id), 'slots')
  t.slots = nil
end

return task_slots
