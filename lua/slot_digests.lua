-- Digests of the slots that the hub offers of a node.
local slot_digests = {}

-- The slots of a node have changed: tell the node the new digest with its next heartbeat.
function slot_digests.changed(part)
  if redis.call('HDEL', keys.orders(part), 'offers') == 1 then orders.changed(part) end
end

-- The digest by which a node sees whether the hub offers what the node has: the number of slots, and the sum of the first ten
-- hex digits of the SHA-1 of each id, in 40 bits. It is kept until the slots change. '' where a node has so many slots that it
-- would take too long.
function slot_digests.of(part)
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

return slot_digests
