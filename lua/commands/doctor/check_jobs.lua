-- Check at jobs: each is listed as active or as soft-deleted, a soft-deleted one serves nobody, and a queue is found by the
-- first task in it. Changes nothing.
-- Returns per job a list of words; hub/doctor/job_words.py says what each means.
command.read('doctor/check_jobs', {
  '...jobs',  -- per job: full name; what is listed of it under that name, or ''
}, function(_, argv)
  local answers = {}
  for i = 1, #argv, 2 do
    local full, list, words = argv[i], argv[i + 1], {}
    local function say(word, wrong) if wrong then words[#words + 1] = word end end
    local id, at, schema, deleted, later = unpack(redis.call('HMGET', keys.job(full), 'id', 'at', 'schema', 'deleted', 'later'))
    if not (id and at and schema) then
      say('record broken', redis.call('EXISTS', keys.job(full), keys.job_queue(full), keys.job_workers(full)) > 0
        or list ~= '' and redis.call('EXISTS', keys.job_tasks(list)) == 1)
    elseif deleted then
      say('unlisted', not redis.call('ZSCORE', keys.deleted_jobs, full))
      say('deleted', redis.call('EXISTS', keys.job_workers(full), keys.job_queue(full)) > 0 or tonumber(later or '0') > 0)
    else
      say('unlisted', tonumber(redis.call('ZSCORE', keys.room_jobs(names.room_of(full)), full) or '') ~= tonumber(at))
    end
    local first = redis.pcall('ZRANGE', keys.job_queue(full), 0, 0, 'WITHSCORES')[2]  -- nil also where it is no queue
    say('head', first and first ~= redis.call('ZSCORE', keys.heads, full))
    answers[#answers + 1] = words
  end
  return answers
end)
