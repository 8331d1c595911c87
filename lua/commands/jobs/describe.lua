-- What jobs are; nothing changes. Returns per job: {full name, id, schema, workers} | 0 (unknown or soft-deleted)
command.read('jobs/describe', {
  '...names',
}, function(_, argv)
  local answers = {}
  for i, full in ipairs(argv) do
    local job = redis.call('HMGET', keys.job(full), 'id', 'schema', 'deleted')
    answers[i] = job[1] and not job[3] and {full, job[1], job[2], redis.call('SMEMBERS', keys.job_workers(full))} or 0
  end
  return answers
end)
