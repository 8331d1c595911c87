-- Orders: what a node is told with its heartbeat.
local orders = {}

-- Note that the orders of a node have changed, and tell the hubs at once; the node gets them with its next heartbeat. Returns the new
-- version of the orders, a number.
function orders.changed(part)
  local version = redis.call('HINCRBY', keys.orders(part), 'version', '1')
  notifications.tell(keys.orders_notice(part), version)
  return version
end

-- Order a registered node to publish its slots again.
function orders.republish(part)
  if redis.call('EXISTS', keys.node(part)) == 0 then return end
  redis.call('HSET', keys.orders(part), 'republish', '1')
  orders.changed(part)
end

return orders
