-- @include emit
-- A worker, its jobs, and the lists of workers per room. A worker stands in the list of a shared room it has a job in, in
-- `*` when it has one in either of them, and in those of other rooms only when it has none there: so the lists that one
-- room sees have nobody twice.
-- A room that is itself called `*` is listed as `@*`, which no room is called.
local function workers_of(room) return key_room_workers(room == '*' and '@*' or room) end
local function is_shared(room) return room == '@global' or room == '@internal' end

local function list_worker(id, at)
  local rooms = redis.call('HKEYS', key_worker_rooms(id))
  local shared = false
  for _, room in ipairs(rooms) do shared = shared or is_shared(room) end
  for _, room in ipairs(rooms) do
    if shared and not is_shared(room) then
      redis.call('ZREM', workers_of(room), id)
    else
      redis.call('ZADD', workers_of(room), at, id)
    end
  end
  if shared then redis.call('ZADD', key_room_workers('*'), at, id) end
end

local function create_worker(id, user)
  local at = digits(next_us())
  redis.call('HSET', key_worker(id), 'user', user, 'at', at, 'beat', at)
  redis.call('ZADD', key_workers, at, id)
  redis.call('ZADD', key_worker_beats, clock_ms, id)
  return at
end

-- Link a worker to a job; a link that is there already stays as it is.
local function link(id, full)
  if redis.call('SADD', key_worker_jobs(id), full) == 0 then return end
  redis.call('SADD', key_job_workers(full), id)
  redis.call('HINCRBY', key_worker_rooms(id), room_of(full), 1)
  list_worker(id, redis.call('HGET', key_worker(id), 'at'))
end

-- Take a worker out of every list and off every job; `worker_jobs` stays for the orphan checks that follow.
local function unlink_all(id)
  for _, room in ipairs(redis.call('HKEYS', key_worker_rooms(id))) do redis.call('ZREM', workers_of(room), id) end
  redis.call('ZREM', key_room_workers('*'), id)
  for _, full in ipairs(redis.call('SMEMBERS', key_worker_jobs(id))) do redis.call('SREM', key_job_workers(full), id) end
  redis.call('DEL', key_worker_rooms(id))
end
