-- @include worker
-- The rooms a worker has jobs in -> how many, by the jobs it is linked to.
local function rooms_of(id)
  local rooms = {}
  for _, full in ipairs(redis.call('SMEMBERS', key_worker_jobs(id))) do
    local room = room_of(full) or ''
    rooms[room] = (rooms[room] or 0) + 1
  end
  return rooms
end

-- Count them again, and list the worker where it belongs by that.
local function count_rooms(id)
  local rooms = rooms_of(id)
  for _, room in ipairs(redis.call('HKEYS', key_worker_rooms(id))) do
    if not rooms[room] then redis.call('ZREM', workers_of(room), id) end
  end
  redis.call('DEL', key_worker_rooms(id))
  for room, links in pairs(rooms) do redis.call('HSET', key_worker_rooms(id), room, links) end
  if not (rooms['@global'] or rooms['@internal']) then redis.call('ZREM', key_room_workers('*'), id) end
  list_worker(id, redis.call('HGET', key_worker(id), 'at'))
end
