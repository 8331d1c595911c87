-- Digests of the slots that the hub offers of a node, by which the node sees whether they are the slots that it has.
local slot_digests = {}

-- Note that the slots of a node have changed: the node is told the new digest with its next heartbeat.
function slot_digests.changed(part)
  if redis.call('HDEL', keys.orders(part), 'offers') == 1 then orders.changed(part) end
end

-- Return the digest: the number of slots, a hyphen, and the sum in 40 bits of the first ten hex digits of the SHA-1 of each id. It is
-- stored until the slots change. Returns '' for a node with more than 2,000 slots, which would take too long.
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
