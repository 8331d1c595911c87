-- Check at tasks: each stands in the lists of its status, and in the one place where somebody will go on with it. What
-- stands anywhere else is found there. Changes nothing.
-- Returns per task a list of words; hub/doctor/job_words.py says what each means.
command.read('doctor/check_tasks', {
  '...tasks',
}, function(_, argv)
  local KNOWN = {pending = 'waits', claimed = 'held', running = 'held', completed = 'over', failed = 'over', cancelled = 'over'}

  local function look_at_holder(say, t)
    if names.is_internal(t.job) then return say('endless', not redis.call('ZSCORE', keys.internal_tasks, t.id)) end
    local ownerless = redis.call('ZSCORE', keys.ownerless, t.id)
    if not t.worker then return say('endless', not ownerless) end
    local listed = redis.call('SISMEMBER', keys.worker_tasks(t.worker), t.id) == 1
    if redis.call('EXISTS', keys.worker(t.worker)) == 1 then return say('not of its worker', not listed) end
    local ends = listed and redis.call('SISMEMBER', keys.dead_workers, t.worker) == 1  -- what it held is being failed
    say('held by the dead', not (ends or ownerless))
  end

  local answers = {}
  for i = 1, #argv do
    local id, words = argv[i], {}
    local function say(word, wrong) if wrong then words[#words + 1] = word end end
    local t = tasks.read(id)
    local how = t and t.room and t.at and t.user and KNOWN[t.status or '']
    if not how then
      say('record broken', redis.call('EXISTS', keys.task(id)) == 1)
    else
      local at = tonumber(t.at)
      local of_room = redis.call('ZSCORE', keys.room_tasks(t.status .. ':' .. t.room), id)
      local of_job = redis.call('ZSCORE', keys.job_tasks(t.status .. ':' .. t.room .. ':' .. t.job), id)
      say('not of its room', tonumber(of_room or '') ~= at)
      say('not of its job', tonumber(of_job or '') ~= at)
      if how == 'waits' then
        local place = t.after and keys.blocked or t.due and keys.later or keys.job_queue(t.job)
        say('waits nowhere', not redis.call('ZSCORE', place, id))
        say('waits in vain', t.after and not chains.has_open(t))
      elseif how == 'held' then
        say('not counted', tonumber(redis.call('ZSCORE', keys.held_tasks, id) or '') ~= at)
        look_at_holder(say, t)
      else
        say('never forgotten', not (t.done and redis.call('ZSCORE', keys.finished, id)))
      end
    end
    answers[i] = words
  end
  return answers
end)
