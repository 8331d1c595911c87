-- What workers are; nothing changes. Returns per worker: {id, last beat, jobs it is linked to, user} | 0 (unknown)
-- @rest ids
-- @include store
local answers = {}
for i, id in ipairs(ARGV) do
  local worker = redis.call('HMGET', key_worker(id), 'beat', 'user')
  answers[i] = worker[1] and {id, worker[1], redis.call('SCARD', key_worker_jobs(id)), worker[2]} or 0
end
return answers
