-- Check whether workers and jobs agree on who is linked to whom. Changes nothing.
-- Returns per pair {} | {'one-sided'} | {'linked to the dead'}; hub/doctor/job_words.py says what each means.
command.read_unclocked('doctor/check_links', {
  '...pairs',  -- per pair: worker, full name of the job
}, function(_, argv)
  local answers = {}
  for i = 1, #argv, 2 do
    local worker, full, words = argv[i], argv[i + 1], {}
    local by_worker = redis.call('SISMEMBER', keys.worker_jobs(worker), full)
    local by_job = redis.call('SISMEMBER', keys.job_workers(full), worker)
    if redis.call('EXISTS', keys.worker(worker)) == 0 then
      if by_job == 1 then words[1] = 'linked to the dead' end
    elseif by_worker ~= by_job then
      words[1] = 'one-sided'
    end
    answers[#answers + 1] = words
  end
  return answers
end)
