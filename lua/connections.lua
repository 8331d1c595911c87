-- Connections: the sockets of clients, and the workers that are bound to each.
local connections = {}

-- Unbind a connection of a hub from its workers; calls `left(worker)` for each worker that has no other connection.
function connections.unbind(connection, hub, left)
  for _, worker in ipairs(redis.call('SMEMBERS', keys.bound(connection))) do
    redis.call('SREM', keys.sockets(worker), connection)
    if redis.call('EXISTS', keys.sockets(worker)) == 0 and redis.call('EXISTS', keys.worker(worker)) == 1 then left(worker) end
  end
  redis.call('DEL', keys.bound(connection))
  redis.call('SREM', keys.connections(hub), connection)
  if redis.call('EXISTS', keys.connections(hub)) == 0 then redis.call('SREM', keys.socket_hubs, hub) end
end

return connections
