-- Workers: their records, their jobs, and the lists of workers of each room.
local workers = {}

-- Return the key of the list of workers of a room. A worker with a job in a shared room stands in the lists of its shared rooms and in
-- `*`; any other worker stands in the lists of its rooms. So the lists that are shown for one room name no worker twice. A room that is
-- called `*` has the list `@*`.
function workers.list_of(room) return keys.room_workers(room == '*' and '@*' or room) end

-- Return whether the workers of a room serve all rooms.
function workers.is_shared(room) return room == '@global' or room == '@internal' end

-- List a worker in the rooms of its jobs; `at` is when it was made.
function workers.list(id, at)
  local rooms = redis.call('HKEYS', keys.worker_rooms(id))
  local shared = false
  for _, room in ipairs(rooms) do shared = shared or workers.is_shared(room) end
  for _, room in ipairs(rooms) do
    if shared and not workers.is_shared(room) then
      redis.call('ZREM', workers.list_of(room), id)
    else
      redis.call('ZADD', workers.list_of(room), at, id)
    end
  end
  if shared then redis.call('ZADD', keys.room_workers('*'), at, id) end
end

function workers.create(id, user)
  local at = numbers.digits(store.next_us())
  redis.call('HSET', keys.worker(id), 'user', user, 'at', at, 'beat', at)
  redis.call('ZADD', keys.workers, at, id)
  redis.call('ZADD', keys.worker_beats, store.clock_ms, id)
  return at
end

-- Link a worker to a job, if it is not linked yet.
function workers.link(id, full)
  if redis.call('SADD', keys.worker_jobs(id), full) == 0 then return end
  redis.call('SADD', keys.job_workers(full), id)
  redis.call('HINCRBY', keys.worker_rooms(id), names.room_of(full), 1)
  workers.list(id, redis.call('HGET', keys.worker(id), 'at'))
end

-- Take a worker out of the lists of its rooms and off its jobs. `worker_jobs` stays: its jobs are checked for orphans afterwards.
function workers.unlink_all(id)
  for _, room in ipairs(redis.call('HKEYS', keys.worker_rooms(id))) do redis.call('ZREM', workers.list_of(room), id) end
  redis.call('ZREM', keys.room_workers('*'), id)
  for _, full in ipairs(redis.call('SMEMBERS', keys.worker_jobs(id))) do redis.call('SREM', keys.job_workers(full), id) end
  redis.call('DEL', keys.worker_rooms(id))
end

-- Return the rooms in which a worker has jobs -> the number of those jobs, by its links.
function workers.rooms_of(id)
  local rooms = {}
  for _, full in ipairs(redis.call('SMEMBERS', keys.worker_jobs(id))) do
    local room = names.room_of(full) or ''
    rooms[room] = (rooms[room] or 0) + 1
  end
  return rooms
end

-- Store in which rooms a worker has jobs, as its links say now, and list it in those rooms.
function workers.count_rooms(id)
  local rooms = workers.rooms_of(id)
  for _, room in ipairs(redis.call('HKEYS', keys.worker_rooms(id))) do
    if not rooms[room] then redis.call('ZREM', workers.list_of(room), id) end
  end
  redis.call('DEL', keys.worker_rooms(id))
  for room, links in pairs(rooms) do redis.call('HSET', keys.worker_rooms(id), room, links) end
  if not (rooms['@global'] or rooms['@internal']) then redis.call('ZREM', keys.room_workers('*'), id) end
  workers.list(id, redis.call('HGET', keys.worker(id), 'at'))
end

-- Count that a task was taken from a worker, and tell the worker so: it asks the hub which task.
function workers.tell_taken(worker)
  if not worker or redis.call('EXISTS', keys.worker(worker)) == 0 then return end
  redis.call('HINCRBY', keys.worker(worker), 'taken', 1)
  notifications.publish(keys.worker_notice(worker), '')
end

return workers
