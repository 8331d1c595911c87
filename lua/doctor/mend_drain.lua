-- Let the list of draining nodes, and that of their deadlines, say what the node is told with its beats. Safe to repeat.
-- Returns {'ok'}
local id   = ARGV[1]
local part = ARGV[2]
if redis.call('SISMEMBER', key_nodes, id) == 1 and redis.call('HEXISTS', key_duty(part), 'drain') == 1 then
  redis.call('SADD', key_draining, id)
else
  redis.call('SREM', key_draining, id)
  redis.call('ZREM', key_drain_deadlines, id)
end
return {'ok'}
