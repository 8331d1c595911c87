-- Workers: their jobs, and the lists of rooms that they stand in.
local workers = {}

-- A worker, its jobs, and the lists of workers per room. A worker stands in the list of a shared room it has a job in, in
-- `*` when it has one in either of them, and in those of other rooms only when it has none there: so the lists that one
-- room sees have no worker twice.
-- A room that is itself called `*` is listed as `@*`, which no room is called.
function workers.list_of(room) return keys.room_workers(room == '*' and '@*' or room) end

function workers.is_shared(room) return room == '@global' or room == '@internal' end

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

-- Link a worker to a job; a link that is there already stays as it is.
function workers.link(id, full)
  if redis.call('SADD', keys.worker_jobs(id), full) == 0 then return end
  redis.call('SADD', keys.job_workers(full), id)
  redis.call('HINCRBY', keys.worker_rooms(id), names.room_of(full), 1)
  workers.list(id, redis.call('HGET', keys.worker(id), 'at'))
end

-- Take a worker out of every list and off every job; `worker_jobs` stays for the orphan checks that follow.
function workers.unlink_all(id)
  for _, room in ipairs(redis.call('HKEYS', keys.worker_rooms(id))) do redis.call('ZREM', workers.list_of(room), id) end
  redis.call('ZREM', keys.room_workers('*'), id)
  for _, full in ipairs(redis.call('SMEMBERS', keys.worker_jobs(id))) do redis.call('SREM', keys.job_workers(full), id) end
  redis.call('DEL', keys.worker_rooms(id))
end

-- The rooms a worker has jobs in -> how many, by the jobs it is linked to.
function workers.rooms_of(id)
  local rooms = {}
  for _, full in ipairs(redis.call('SMEMBERS', keys.worker_jobs(id))) do
    local room = names.room_of(full) or ''
    rooms[room] = (rooms[room] or 0) + 1
  end
  return rooms
end

-- Count them again, and list the worker where it belongs by that.
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

-- Tell a worker that a task it held was taken from it, and that it did not say so itself: it asks which.
function workers.tell_taken(worker)
  if not worker or redis.call('EXISTS', keys.worker(worker)) == 0 then return end
  redis.call('HINCRBY', keys.worker(worker), 'taken', 1)
  notifications.publish(keys.worker_notice(worker), '')
end

return workers
