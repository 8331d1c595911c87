-- Orders: what a node is told with its heartbeat.
local orders = {}

-- The orders of a node have changed: the node gets them with its next heartbeat, and is told at once that there are new ones.
-- Returns the new version.
function orders.changed(part)
  local version = redis.call('HINCRBY', keys.orders(part), 'version', '1')
  notifications.tell(keys.orders_notice(part), version)
  return version
end

-- A node that is on the books is to publish again what it has.
function orders.republish(part)
  if redis.call('EXISTS', keys.node(part)) == 0 then return end
  redis.call('HSET', keys.orders(part), 'republish', '1')
  orders.changed(part)
end

return orders
