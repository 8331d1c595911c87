-- Nodes: who is on the books, and how one leaves them.
local nodes = {}

-- The raw id of the node that is stored under a key part; nil when none is.
function nodes.owner_of(part)
  local raw = redis.call('HGET', keys.node(part), 'HubId')
  if raw then return raw end
  if redis.call('SISMEMBER', keys.nodes, part) == 1 then return part end
end

-- Whether the node with this key part is on the books; `raw` is its id where that differs and is known, else ''.
function nodes.registered(part, raw)
  if raw == '' then raw = redis.call('HGET', keys.node(part), 'HubId') or part end
  return redis.call('SISMEMBER', keys.nodes, raw) == 1
end

-- Whether the node of a slot is not on the books, though the slot was taken in so long ago that it should be: nothing would
-- notice its death. Slots that are about to be pruned are left to that.
function nodes.is_unknown(record, patience_ms)
  if redis.call('SISMEMBER', keys.nodes, record.node or '') == 1 then return false end
  if redis.call('HEXISTS', keys.leaving, record.part) == 1 then return false end
  return store.clock_ms - tonumber(record.adopted_ms or '-inf') > patience_ms
end

-- Drop up to `limit` slots of a node wherever they are, ending their leases. Returns slots dropped, leases ended, left.
function nodes.prune(part, limit)
  local ended = {}
  local popped = redis.call('SPOP', keys.node_slots(part), limit)
  for _, slot in ipairs(popped) do
    local record = redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place', 'label', 'run', 'node')
    local of = {slot = slot, node = record[6], pool = record[2], label = record[4], run = record[5]}
    if record[1] then slots.unlist(record[2], record[1], record[3]) end
    if record[3] == 'lent' then
      revocations.revoke(slot, revocations.grace_ms())
      endings.finish(slot, record[4], record[5], part)
      history.slot('grant.ended', of, 'node')
      ended[#ended + 1] = slot
    end
    if record[2] then
      slots.drop(slot, record[2], part)
      history.slot('slot.withdrawn', of, 'node')
    end
    redis.call('SET', keys.recycle(slot), '1', 'EX', keys.seconds.recycle)
  end
  local left = redis.call('SCARD', keys.node_slots(part))
  if left == 0 then
    redis.call('DEL', keys.orders(part), keys.lent(part), keys.aside(part), keys.withdrawn(part))
    redis.call('HDEL', keys.leaving, part)
  end
  return #popped, ended, left
end

-- Take a node off the books and drop its first slots; the rest waits in `leaving` for the next batch. An id that only
-- looks like that of another node, as part of a key, takes nothing of it along.
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
