-- Nodes: which are registered, and how a node is removed.
local nodes = {}

-- Return the raw id of the node that is stored under a key part; nil for none.
function nodes.owner_of(part)
  local raw = redis.call('HGET', keys.node(part), 'HubId')
  if raw then return raw end
  if redis.call('SISMEMBER', keys.nodes, part) == 1 then return part end
end

-- Return whether the node with this key part is registered; `raw` is its id where that is known to differ from the key part, else ''.
function nodes.registered(part, raw)
  if raw == '' then raw = redis.call('HGET', keys.node(part), 'HubId') or part end
  return redis.call('SISMEMBER', keys.nodes, raw) == 1
end

-- Return whether the node of a slot is not registered although the slot was taken in longer than `patience_ms` ago: no sweep would
-- notice the death of that node. False for slots of a removed node that are still to be pruned.
function nodes.is_unknown(record, patience_ms)
  if redis.call('SISMEMBER', keys.nodes, record.node or '') == 1 then return false end
  if redis.call('HEXISTS', keys.leaving, record.part) == 1 then return false end
  return store.clock_ms - tonumber(record.adopted_ms or '-inf') > patience_ms
end

-- Drop up to `limit` slots of a node, in whatever place, and end their leases. Returns the number of slots dropped, the slots whose
-- lease ended, and the number of slots left.
function nodes.prune(part, limit)
  local ended = {}
  local popped = redis.call('SPOP', keys.node_slots(part), limit)
  for _, slot in ipairs(popped) do
    local record = slots.read(slot)
    if record.item then slots.unlist(record.pool, record.item, record.place) end
    if record.place == 'lent' then
      revocations.revoke(slot, revocations.grace_ms(), 'node')
      endings.end_lease(record)
      history.slot('grant.ended', record, 'node')
      ended[#ended + 1] = slot
    end
    if record.pool then
      slots.drop(slot, record.pool, part)
      history.slot('slot.withdrawn', record, 'node')
    end
    redis.call('SET', keys.recycle(slot), '1', 'EX', keys.seconds.recycle)
  end
  local left = redis.call('SCARD', keys.node_slots(part))
  if left == 0 then
    redis.call('DEL', keys.orders(part), keys.lent(part), keys.aside(part), keys.withdrawn(part), keys.node_holds(part))
    redis.call('HDEL', keys.leaving, part)
  end
  return #popped, ended, left
end

-- Remove a node and drop its first slots; the others wait in `leaving` for nodes.prune. A raw id whose key part belongs to another node
-- removes nothing of that node. Returns what nodes.prune returns.
function nodes.remove(id, part, limit)
  local owner = nodes.owner_of(part)
  redis.call('SREM', keys.nodes, id)
  redis.call('ZREM', keys.beats, id)
  if owner and owner ~= id then return 0, {}, 0 end
  redis.call('SREM', keys.draining, id)
  redis.call('SREM', keys.suspects, id)
  redis.call('DEL', keys.node(part), keys.node_alive(part))
  redis.call('HSET', keys.leaving, part, id)
  return nodes.prune(part, limit)
end

return nodes
