-- Read workers; changes nothing. Returns per worker {id, time of its last heartbeat in microseconds, number of its jobs, user} | 0
-- (unknown)
command.read('workers/describe', {
  '...ids',
}, function(_, argv)
  local answers = {}
  for i, id in ipairs(argv) do
    local worker = lenient.fields(keys.worker(id), 'beat', 'user')
    answers[i] = tonumber(worker[1] or '') and worker[2] and {id, worker[1], lenient.call(0, 'SCARD', keys.worker_jobs(id)), worker[2]} or 0
  end
  return answers
end)
