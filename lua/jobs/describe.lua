-- What jobs are; nothing changes. Returns per job: {full name, id, schema, workers} | 0 (unknown or soft-deleted)
-- @rest names
-- @include store
local answers = {}
for i, full in ipairs(ARGV) do
  local job = redis.call('HMGET', key_job(full), 'id', 'schema', 'deleted')
  answers[i] = job[1] and not job[3] and {full, job[1], job[2], redis.call('SMEMBERS', key_job_workers(full))} or 0
end
return answers
