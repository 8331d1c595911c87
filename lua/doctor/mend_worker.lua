-- List a worker where it belongs. One whose record says too little, and what is left of one that is gone, is removed as the
-- dead are. Safe to repeat. Returns {'ok', tasks that are left for `bury`}
local worker = ARGV[1]
local limit  = tonumber(ARGV[2])     -- tasks failed in this step
-- @include worker_rooms
-- @include remove_worker
local user, at, beat = unpack(redis.call('HMGET', key_worker(worker), 'user', 'at', 'beat'))
if not (user and at and beat) then
  local left = redis.call('EXISTS', key_worker(worker), key_worker_jobs(worker), key_worker_rooms(worker),
    key_worker_tasks(worker), key_worker_providers(worker))
  if redis.call('SISMEMBER', key_dead_workers, worker) == 1 then return {'ok', fail_tasks(worker, limit)} end
  return {'ok', left > 0 and remove_worker(worker, 'doctor', limit) or 0}
end
redis.call('ZADD', key_workers, at, worker)
redis.call('ZADD', key_worker_beats, 'NX', clock_ms, worker)
count_rooms(worker)
return {'ok', 0}
