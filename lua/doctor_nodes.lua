-- Checks and repairs of nodes, of what is kept for them, and of the record of the store.
local doctor_nodes = {}

-- Whether a registered node is dead and still on the books, and whether its drain is known everywhere.
function doctor_nodes.check(say, limits, id, part)
  if redis.call('SISMEMBER', keys.nodes, id) == 0 then return end
  local word, seen = liveness.of(id, part, limits.timeout_ms)
  local beat = redis.call('ZSCORE', keys.beats, id)
  local silent_ms = beat and store.clock_ms - tonumber(beat) or store.now_ms - (times.parse(seen) or 0)
  say('dead', word == 'stale' and silent_ms > limits.timeout_ms + limits.grace_ms)
  local marked = drains.holds_back(part)
  local listed = redis.call('SISMEMBER', keys.draining, id) == 1
  say('drain unlisted', marked and not listed)
  say('drain unmarked', listed and not marked)
  say('deadline left', redis.call('ZSCORE', keys.drain_deadlines, id) and not marked)
end

-- Let the list of draining nodes, and that of their deadlines, say what the node is told with its heartbeats.
function doctor_nodes.repair_drain(id, part)
  if redis.call('SISMEMBER', keys.nodes, id) == 1 and drains.holds_back(part) then
    redis.call('SADD', keys.draining, id)
  else
    redis.call('SREM', keys.draining, id)
    redis.call('ZREM', keys.drain_deadlines, id)
  end
end

-- Whether what is kept for a node, by the key part of its id, belongs to a node. `raw` is the id where that is known to differ
-- from the key part, else ''.
function doctor_nodes.check_part(say, _, part, raw)
  if redis.call('HEXISTS', keys.leaving, part) == 1 then return say('leaving', true) end
  if nodes.registered(part, raw) then return end
  say('hash left', redis.call('EXISTS', keys.node(part)) == 1)
  local owns = redis.call('EXISTS', keys.node_slots(part), keys.lent(part)) > 0
  say('duty left', not owns and redis.call('EXISTS', keys.orders(part)) == 1)
end

-- Delete what is kept for a node that is not on the books and owns nothing.
function doctor_nodes.repair_part(part, raw)
  if nodes.registered(part, raw) or redis.call('HEXISTS', keys.leaving, part) == 1 then return end
  redis.call('DEL', keys.node(part))
  if redis.call('EXISTS', keys.node_slots(part), keys.lent(part)) == 0 then redis.call('DEL', keys.orders(part)) end
end

-- The token counter starts above every token that was issued before the store was opened. Two switches, read by every call,
-- say whether borrows wait and whether there are caps.
function doctor_nodes.check_store(say)
  local said = redis.call('HMGET', keys.store, 'token', 'lost_below')
  say('counter low', numbers.above(said[2] or '0', said[1] or '0'))
  say('queue forgotten', not store.anybody_waits and redis.call('EXISTS', keys.turns) == 1)
  say('caps forgotten', not store.has_caps and redis.call('EXISTS', keys.caps) == 1)
end

-- Move the token counter above a token that was issued and above the start of this store; it never moves back.
function doctor_nodes.repair_counter(issued)
  for _, floor in ipairs({redis.call('HGET', keys.store, 'lost_below') or '0', issued}) do
    local token = redis.call('HGET', keys.store, 'token') or '0'
    if numbers.above(floor, token) then redis.call('HSET', keys.store, 'token', floor) end
  end
end

function doctor_nodes.repair_store()
  doctor_nodes.repair_counter('0')
  caps.note()
  if redis.call('EXISTS', keys.turns) == 1 then redis.call('HSET', keys.store, 'waiting', '1') end
end

return doctor_nodes
