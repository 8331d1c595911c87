-- Undo what ties a connection to its workers; calls `left(worker)` for each that has no other connection.
local function unbind(connection, hub, left)
  for _, worker in ipairs(redis.call('SMEMBERS', key_bound(connection))) do
    redis.call('SREM', key_sockets(worker), connection)
    if redis.call('EXISTS', key_sockets(worker)) == 0 and redis.call('EXISTS', key_worker(worker)) == 1 then left(worker) end
  end
  redis.call('DEL', key_bound(connection))
  redis.call('SREM', key_connections(hub), connection)
  if redis.call('EXISTS', key_connections(hub)) == 0 then redis.call('SREM', key_socket_hubs, hub) end
end
