-- Submit tasks to a job with workers, one per id and payload; each can be claimed at once, when it is due, or when its parents are over.
-- Safe to repeat: a task that exists is answered as it is. Where another task stands for a unique key, no task is made: that one is
-- answered, also to repeats of a request with a key.
-- Returns {'ok', task, ...} as `job_queue.task_reply` returns them | {'job'} (no such active job) | {'check'} (check the payloads first)
--   | {'reused'} (the key came with another request) | {'unknown', id, ...} (parents without a record) | {'quota', ...} of `quotas.take`
command.add('tasks/submit', {
  'full',           -- full name of the job
  'room',           -- the room of the tasks
  'user',           -- the calling user
  'priority',       -- a point counts as a second in the queue
  'due_us',         -- the time before which it cannot be claimed, '0' for none
  'attempts',       -- '' for the attempts and the back-off of the job
  'backoff_ms',     -- pause after the first failed attempt
  'silence_ms',     -- how long it may be silent while it runs, '0' for any time
  'unique',         -- '' or key:us, the key under which there is one task at a time, and its window from the submit in microseconds
  'checked',        -- digest of the schema that the payloads were found to fit, '' for none
  'after',          -- '' or 'fail' | 'run' (what becomes of it when a parent ends otherwise than completed), then the ids of its parents
  'told',           -- '1': a hub repeats the call to a store that may have lost it
  'key',            -- idempotency key of the request, '' for none
  'fingerprint',    -- digest of the request
  'keep_s',         -- for how many seconds the key is kept: no longer than its tasks
  'later: number',  -- bytes that further calls of the same request will add, -1 in such a call
  '...tasks',       -- per task: id, payload
}, function(a, argv)
  local job = redis.call('HMGET', keys.job(a.full), 'at', 'deleted', 'attempts', 'backoff_ms', 'validate')
  if not job[1] then return {'job'} end
  local before, other = string.match(a.key ~= '' and redis.call('GET', keys.submitted(a.key)) or '!', '^(%x*) ?(%x*)$')
  if before and before ~= a.fingerprint then return {'reused'} end
  if job[2] and not before then return {'job'} end
  if job[5] and job[5] ~= a.checked and a.told ~= '1' and not before and not tasks.read(argv[17]) then return {'check'} end
  local policy, open, failed, unknown
  if a.after ~= '' then
    policy = string.match(a.after, '^%l+')
    open, failed, unknown = blocked.standing(policy, a.after)
    if unknown[1] and a.told ~= '1' and not tasks.read(argv[17]) then return {'unknown', unpack(unknown)} end
  end
  local function stands_for_it()
    local t = other ~= '' and other and tasks.read(other) or a.unique ~= '' and a.told ~= '1' and uniques.find(a.unique)
    if t and a.key ~= '' then redis.call('SET', keys.submitted(a.key), a.fingerprint .. ' ' .. t.id, 'EX', a.keep_s) end
    return t
  end
  local bytes, spare = 0, 0
  for i = 18, #argv, 2 do bytes = bytes + #argv[i] + quotas.EACH end
  local how = {is_free = a.told == '1' or a.later < 0, later = a.later, is_open = names.room_of(a.full) == a.room}
  local refusal = quotas.take('tasks', a.user, a.room, bytes, how)
  if refusal and (tasks.read(argv[17]) or stands_for_it()) then  -- a repeat, or a request that makes no task
    refusal = quotas.take('tasks', a.user, a.room, bytes, {is_free = true})
  elseif not refusal and a.key ~= '' and not before and not how.is_free then
    refusal = quotas.note('keys', a.user, 86400)
    if refusal then quotas.release('tasks', a.user, a.room, bytes) end
  end
  if refusal then return refusal end

  if a.key ~= '' and not before then redis.call('SET', keys.submitted(a.key), a.fingerprint, 'EX', a.keep_s, 'NX') end
  if a.attempts == '' then a.attempts, a.backoff_ms = job[3] or '1', job[4] or a.backoff_ms end
  local answers, made = {'ok'}, 0
  local function make(id, payload)
    made = made + 1
    local tried = a.attempts ~= '1'
    local waits = open and open[1] and not failed
    local t = submissions.make({id = id, job = a.full, room = a.room, user = a.user, prio = a.priority ~= '0' and a.priority or nil,
      max = tried and a.attempts or nil, backoff_ms = tried and a.backoff_ms or nil,
      silence = a.silence_ms ~= '0' and a.silence_ms or nil, unique = a.unique ~= '' and a.unique or nil,
      after = waits and policy or nil, bytes = numbers.whole(#payload + quotas.EACH)}, payload, tonumber(a.due_us), waits and open)
    if failed and t.status == 'pending' then outcomes.close(t, 'failed', chains.why(failed[1], failed[2]), id) end
    return t
  end
  for i = 17, #argv, 2 do
    local t = tasks.read(argv[i]) or stands_for_it()
    if t then spare = spare + #argv[i + 1] + quotas.EACH end
    if not t and job[2] then
      quotas.release('tasks', a.user, a.room, bytes)
      return {'job'}
    end
    answers[#answers + 1] = job_queue.task_reply(t or make(argv[i], argv[i + 1]))
  end
  if made > 0 then redis.call('HINCRBY', keys.job(a.full), 'tasks', made) end
  if spare > 0 then quotas.release('tasks', a.user, a.room, spare) end
  return answers
end)
