-- Bind a worker to a connection of its user's; a worker that had hung up is back by that. Safe to repeat.
-- Returns {'ok'} | {'worker'} (unknown) | {'forbidden'} (another user's) | {'full'} (the connection has as many as it may)
local worker     = ARGV[1]
local user       = ARGV[2]
local connection = ARGV[3]
local hub        = ARGV[4]            -- whose connection it is
local most       = tonumber(ARGV[5])  -- workers a connection may have
-- @include store
local owner = redis.call('HGET', key_worker(worker), 'user')
if not owner then return {'worker'} end
if owner ~= user then return {'forbidden'} end
if redis.call('SISMEMBER', key_bound(connection), worker) == 0 and redis.call('SCARD', key_bound(connection)) >= most then
  for _, other in ipairs(redis.call('SMEMBERS', key_bound(connection))) do
    if redis.call('EXISTS', key_worker(other)) == 0 then redis.call('SREM', key_bound(connection), other) end
  end
  if redis.call('SCARD', key_bound(connection)) >= most then return {'full'} end
end
redis.call('SADD', key_sockets(worker), connection)
redis.call('SADD', key_bound(connection), worker)
redis.call('SADD', key_connections(hub), connection)
redis.call('SADD', key_socket_hubs, hub)
redis.call('ZREM', key_hung_up, worker)
return {'ok'}
