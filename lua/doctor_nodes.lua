-- Checks and repairs of nodes, of the keys that are kept for them, and of the record of the store.
local doctor_nodes = {}

-- Check that a registered node is not dead, and that its orders, the list of drains and the list of drain deadlines agree.
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

-- Make the list of draining nodes and the list of their deadlines agree with the orders of the node.
function doctor_nodes.repair_drain(id, part)
  if redis.call('SISMEMBER', keys.nodes, id) == 1 and drains.holds_back(part) then
    redis.call('SADD', keys.draining, id)
  else
    redis.call('SREM', keys.draining, id)
    redis.call('ZREM', keys.drain_deadlines, id)
  end
end

-- Check that keys kept for a node, by the key part of its id, belong to a registered node. `raw` is the id itself where it is known to
-- differ from the key part, else ''.
function doctor_nodes.check_part(say, _, part, raw)
  if redis.call('HEXISTS', keys.leaving, part) == 1 then return say('leaving', true) end
  if nodes.registered(part, raw) then return end
  say('hash left', redis.call('EXISTS', keys.node(part)) == 1)
  local owns = redis.call('EXISTS', keys.node_slots(part), keys.lent(part)) > 0
  say('duty left', not owns and redis.call('EXISTS', keys.orders(part)) == 1)
end

-- Delete the keys of a node that is not registered; its orders stay while slots or leases of it are left.
function doctor_nodes.repair_part(part, raw)
  if nodes.registered(part, raw) or redis.call('HEXISTS', keys.leaving, part) == 1 then return end
  redis.call('DEL', keys.node(part))
  if redis.call('EXISTS', keys.node_slots(part), keys.lent(part)) == 0 then redis.call('DEL', keys.orders(part)) end
end

-- Check the record of the store: the token counter is above every token that was issued before the store was opened, and the
-- switches that every call reads, whether tickets and bundles wait and whether there are caps, rules, classes and lines, are right.
function doctor_nodes.check_store(say)
  local said = redis.call('HMGET', keys.store, 'token', 'lost_below')
  say('counter low', numbers.above(said[2] or '0', said[1] or '0'))
  say('queue forgotten', not store.anybody_waits and redis.call('EXISTS', keys.turns) == 1)
  say('caps forgotten', not store.has_caps and redis.call('EXISTS', keys.caps) == 1)
  say('matching forgotten', not store.matching and redis.call('EXISTS', keys.classes, keys.all_lines) > 0)
  doctor_bundles.check_store(say)
  doctor_team_rows.check_store(say)
  say('rules forgotten', store.rules == '' and redis.call('EXISTS', keys.rules) == 1)
end

-- Raise the token counter to a token that was issued and to the token with which this store began; it is never lowered.
function doctor_nodes.repair_counter(issued)
  for _, floor in ipairs({redis.call('HGET', keys.store, 'lost_below') or '0', issued}) do
    local token = redis.call('HGET', keys.store, 'token') or '0'
    if numbers.above(floor, token) then redis.call('HSET', keys.store, 'token', floor) end
  end
end

-- Repair the token counter and the switches.
function doctor_nodes.repair_store()
  doctor_nodes.repair_counter('0')
  caps.note()
  doctor_bundles.repair_store()
  doctor_team_rows.repair_store()
  if not store.matching and redis.call('EXISTS', keys.classes, keys.all_lines) > 0 then classes.changed() end
  if redis.call('EXISTS', keys.rules) == 1 then pool_rules.note(lease_texts.next_token()) end
  if redis.call('EXISTS', keys.turns) == 1 then redis.call('HSET', keys.store, 'waiting', '1') end
end

return doctor_nodes
