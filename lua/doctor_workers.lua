-- Checks and repairs of workers, and of their links to jobs. A worker must have a record, a heartbeat and its places in lists, or none
-- of them; of a removed worker only tasks that are being failed may be left.
local doctor_workers = {}
local place_in = doctor_indexes.place_in

local function check_rooms(say, id, at)
  local rooms, counted, shared, listed = workers.rooms_of(id), redis.call('HGETALL', keys.worker_rooms(id)), false, true
  local differ = false
  for i = 1, #counted, 2 do differ = differ or rooms[counted[i]] ~= tonumber(counted[i + 1]) end
  for room in pairs(rooms) do shared = shared or workers.is_shared(room) end
  local function look_in(list) listed = listed and place_in(list, id) == at end
  for room in pairs(rooms) do
    differ = differ or redis.call('HEXISTS', keys.worker_rooms(id), room) == 0
    if shared == workers.is_shared(room) then look_in(workers.list_of(room)) end
  end
  if shared then look_in(keys.room_workers('*')) end
  say('rooms differ', differ)
  say('not in its rooms', not listed)
end

function doctor_workers.check(say, limits, id)
  local user, at, beat = unpack(redis.call('HMGET', keys.worker(id), 'user', 'at', 'beat'))
  if user and at and beat then
    local heard = place_in(keys.worker_beats, id)
    say('unlisted', place_in(keys.workers, id) ~= tonumber(at))
    say('never dead', not heard)
    say('dead', heard and store.clock_ms - heard > limits.timeout_ms + limits.grace_ms)
    check_rooms(say, id, tonumber(at))
  elseif redis.call('EXISTS', keys.worker(id)) == 1 then
    say('record broken', true)
  elseif redis.call('SISMEMBER', keys.dead_workers, id) == 1 then
    say('half removed', true)
  else
    say('left behind', redis.call('EXISTS', keys.worker_jobs(id), keys.worker_rooms(id), keys.worker_tasks(id),
      keys.worker_providers(id)) > 0)
  end
end

-- List a worker where it belongs. A worker whose record is incomplete, and what is left of a removed one, is removed like a dead
-- worker. Returns how many of its tasks are left after `limit` of them; nil for none.
function doctor_workers.repair(id, limit)
  local user, at, beat = unpack(redis.call('HMGET', keys.worker(id), 'user', 'at', 'beat'))
  if not (user and at and beat) then
    if redis.call('SISMEMBER', keys.dead_workers, id) == 1 then return dead_workers.fail_tasks(id, tonumber(limit)) end
    local left = redis.call('EXISTS', keys.worker(id), keys.worker_jobs(id), keys.worker_rooms(id), keys.worker_tasks(id),
      keys.worker_providers(id))
    return left > 0 and dead_workers.remove(id, 'doctor', tonumber(limit)) or 0
  end
  redis.call('ZADD', keys.workers, at, id)
  redis.call('ZADD', keys.worker_beats, 'NX', store.clock_ms, id)
  workers.count_rooms(id)
end

-- Check that a worker and a job, by its full name, agree whether they are linked.
function doctor_workers.check_link(say, _, id, full)
  local by_worker = redis.call('SISMEMBER', keys.worker_jobs(id), full)
  local by_job = redis.call('SISMEMBER', keys.job_workers(full), id)
  local known = redis.call('EXISTS', keys.worker(id)) == 1
  say('linked to the dead', not known and by_job == 1)
  say('one-sided', known and by_worker ~= by_job)
end

-- Link a worker and a job on both sides where one side says so and both exist, else remove the link from both sides.
function doctor_workers.repair_link(id, full)
  local known = redis.call('EXISTS', keys.worker(id)) == 1
  if redis.call('SISMEMBER', keys.worker_jobs(id), full) + redis.call('SISMEMBER', keys.job_workers(full), id) == 0 then return end
  if known and redis.call('HEXISTS', keys.job(full), 'id') == 1 then
    redis.call('SADD', keys.worker_jobs(id), full)
    redis.call('SADD', keys.job_workers(full), id)
    jobs.revive(full)
  else
    redis.call('SREM', keys.job_workers(full), id)
    if known then redis.call('SREM', keys.worker_jobs(id), full) end
    jobs.check_orphan(full)
  end
  if known then workers.count_rooms(id) end
end

return doctor_workers
