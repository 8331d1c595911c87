-- Give a worker the oldest tasks of all jobs to which it is linked, but none of an @internal job. A claim that finds no task looks at
-- the head of each queue and writes nothing, unless it has an idempotency key. Safe to repeat for a minute: a repeat gets the same
-- tasks, or none; a repeat of the worker's last claim with a key gets them as long as the worker holds them. Each claim of a task has a
-- name, which only rises: reports say which claim they are about. After a loss no task is given until hubs have said which ended.
-- Where tasks need slots, a claim takes both in this step, and the oldest tasks for which there are slots.
-- Returns {'ok', task, ...} as `job_queue.task_reply` returns them | {'lacking', job, needs as JSON, ticket} (there are tasks but no slots
--   for them: borrow these under this ticket, and call again) | {'again'} (call again at once: limits keep the first tasks) | {'settling',
--   ms left} | {'worker'} (unknown) | {'forbidden'} (not the caller's) | {'superseded'} (another process is the worker)
command.finish('tasks/claim', {
  'worker',
  'user',                -- the calling user
  'most: number',        -- most tasks
  'start',               -- '1': the tasks are running at once
  'runtime_ms: number',  -- how long the tasks may take, 0 for no limit
  'request',             -- request id
  'keyed',               -- '1': the caller named the request id, and may repeat it at any time
  'final',               -- '1': the caller gets an empty answer now, instead of waiting
  'incarnation',         -- the process that is the worker, '' when the call names none
  'holder',              -- JSON of the caller as the holder of slots, as lua/holders.lua says; '' where it may not borrow
  'slots_ms',            -- how long a lease of a task lasts without a heartbeat of the worker
  'bundle',              -- slots that the worker has waited for, '' for none; they are given back where no task needs them now
  'job',                 -- the job for which it has
}, function(a)
  local owner, last, held, process = unpack(redis.call('HMGET', keys.worker(a.worker), 'user', 'claim', 'tasks', 'incarnation'))
  local is_past = a.incarnation ~= '' and process and process ~= a.incarnation
  local refusal = not owner and 'worker' or owner ~= a.user and 'forbidden' or is_past and 'superseded'
  if refusal then
    task_slots.give_up(a.bundle)
    return {refusal}
  end
  local answers = {'ok'}
  local before = a.keyed == '1' and last == a.request and held or redis.call('GET', keys.claim(a.request))
  if before then
    task_slots.give_up(a.bundle)
    for id, claim in string.gmatch(before, '(%x+):?(%d*)') do
      local t = tasks.read(id)
      if t and t.worker == a.worker and (claim == '' or claim == t.claim) and (t.status == 'claimed' or t.status == 'running') then
        answers[#answers + 1] = job_queue.task_reply(t)
      end
    end
    return answers
  end

  if store.settle_left_ms > 0 then return {'settling', math.ceil(store.settle_left_ms)} end  -- a hub may have yet to say what ended

  put_off_tasks.let_in(32)
  local terms = claim_terms.NONE
  if store.job_terms then
    local given = {worker = a.worker, bundle = a.bundle, job = a.job, holder = a.holder, slots_ms = a.slots_ms}
    terms = claim_terms.new(given, limit_rooms.let_in_due(32))
  end
  local most = terms.most or a.most
  local taken = {}
  local function take_of(fulls)
    local next_task, leave = claims.oldest_first(a.worker, most, terms.ready, fulls)
    while #taken < most do
      local t = next_task()
      if not t then break end
      claimed_tasks.mark(t, a.worker, a.request, a.start == '1', a.runtime_ms)
      terms.start(t)
      taken[#taken + 1] = t.id .. ':' .. t.claim
      answers[#answers + 1] = job_queue.task_reply(t)
    end
    leave()
  end
  take_of(terms.only)
  if #taken == 0 and terms.skips and not terms.only then take_of(redis.call('SMEMBERS', keys.worker_jobs(a.worker))) end
  terms.leave()
  if #taken == 0 and a.final ~= '1' and terms.lacking then return terms.reply() end
  if #taken == 0 and terms.again then return {'again'} end
  if #taken > 0 and a.keyed == '1' then
    redis.call('HSET', keys.worker(a.worker), 'claim', a.request, 'tasks', table.concat(taken, ','))
  end
  if #taken > 0 or (a.keyed == '1' and a.final == '1') then
    redis.call('SET', keys.claim(a.request), table.concat(taken, ','), 'EX', keys.seconds.claim)
  end
  return answers
end)
