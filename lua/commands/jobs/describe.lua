-- Read jobs; changes nothing. Returns per job {full name, id, schema of the payload, {worker, ...}, schema of the result or ''} | 0
-- (unknown or soft-deleted)
command.read('jobs/describe', {
  '...names',
}, function(_, argv)
  local answers = {}
  for i, full in ipairs(argv) do
    local job = lenient.fields(keys.job(full), 'id', 'schema', 'deleted', 'result')
    local workers = lenient.call({}, 'SMEMBERS', keys.job_workers(full))
    answers[i] = job[1] and not job[3] and {full, job[1], job[2], workers, job[4] or ''} or 0
  end
  return answers
end)
