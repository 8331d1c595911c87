-- What the hub offers of a node.
local offers = {}

-- The node is told anew what is offered of it, with its next beat.
function offers.changed(part)
  if redis.call('HDEL', keys.orders(part), 'offers') == 1 then orders.changed(part) end
end

-- What the hub offers of a node, in short, so that the node can see whether that is what it has: how many slots, and the
-- sum of the first ten hex digits of the SHA-1 of each id, in 40 bits. It is kept until that changes. '' of a node with
-- so many slots that it would take too long.
function offers.of(part)
  local known = redis.call('HGET', keys.orders(part), 'offers')
  if known then return known end
  if redis.call('SCARD', keys.node_slots(part)) > 2000 then return '' end
  local slots, sum = redis.call('SMEMBERS', keys.node_slots(part)), 0
  for _, slot in ipairs(slots) do
    sum = (sum + tonumber(string.sub(redis.sha1hex(slot), 1, 10), 16)) % 1099511627776
  end
  local found = string.format('%d-%.0f', #slots, sum)
  redis.call('HSET', keys.orders(part), 'offers', found)
  return found
end

return offers
