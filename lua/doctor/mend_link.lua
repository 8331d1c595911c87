-- Link a worker and a job on both sides where one says so and both exist, else on neither. Safe to repeat. Returns {'ok'}
local worker = ARGV[1]
local full   = ARGV[2]
-- @include worker_rooms
-- @include orphan
local known = redis.call('EXISTS', key_worker(worker)) == 1
local linked = redis.call('SISMEMBER', key_worker_jobs(worker), full) + redis.call('SISMEMBER', key_job_workers(full), worker)
if known and linked > 0 and redis.call('HEXISTS', key_job(full), 'id') == 1 then
  redis.call('SADD', key_worker_jobs(worker), full)
  redis.call('SADD', key_job_workers(full), worker)
  revive(full)
  count_rooms(worker)
elseif linked > 0 then
  redis.call('SREM', key_job_workers(full), worker)
  if known then
    redis.call('SREM', key_worker_jobs(worker), full)
    count_rooms(worker)
  end
  check_orphan(full)
end
return {'ok'}
