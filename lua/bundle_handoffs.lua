-- Hand-offs of bundles: all leases of a bundle are made in one step.
local bundle_handoffs = {}

-- Make the leases of a bundle, of which the first is the answer of its request. `what`: the event. found: a slot per unit, in no list.
function bundle_handoffs.grant(t, wish, found, what)
  found[1].token = lease_texts.next_token()
  local id = bundles.id_of(found[1].token)
  for n, each in ipairs(found) do
    local label, holder = wish.units[n].label, bundles.holder_of(t.holder, id, n, wish.together)
    leases.grant_to(each, n == 1 and t.id, label, t.run, holder, t.ttl_ms, t.idle_ms, t.fingerprint, t.attempt, t.keep_s)
    history.granted(what, each, t.id or '', {label = label, run = t.run, holder = holder})
  end
  return id
end

-- Make the leases of a bundle that waited, and tell its hub.
function bundle_handoffs.hand_on(t, found)
  tickets.step_out(t)
  bundle_handoffs.grant(t, t.wish, found, 'grant.handed')
  handoffs.leave_place(t)
  redis.call('SADD', keys.handed(t.hub), t.id)
  for _, each in ipairs(found) do
    redis.call('HSET', keys.slot(each.slot), 'unseen', t.hub, 'began', usage.began(tonumber(t.since_ms or '')))
    local before = call_state.released[each.slot]
    if before then redis.call('HSET', keys.slot(each.slot), 'before', before) end
  end
  notifications.publish(keys.granted(t.hub), t.id)
  call_state.served = call_state.served + 1
end

-- Return a bundle that waits and that a hub attends; nil else: then it leaves the line.
function bundle_handoffs.waiting(ticket)
  local t = tickets.read(ticket)
  if not t.wish then bundle_line.step_out(ticket) return nil end
  if hubs.is_heard(t.hub) then return t end
  tickets.set_aside(t, 'hub')
end

-- Serve some of the bundles that wait, from free slots. With a pool only those that a slot of it suits, of this class, and on this node.
-- Returns how many were looked at: a call looks at a bounded number of slots.
function bundle_handoffs.serve(waiting, pool, class, part)
  for n, ticket in ipairs(waiting) do
    if call_state.left_to_look <= 0 then return n - 1 end
    local t = bundle_handoffs.waiting(ticket)
    if t then t.wish.reserves = redis.call('HGET', keys.reserver, 'ticket') == ticket end
    if t and (not pool or bundle_wishes.suits(t.wish, pool, class)) then
      local found, lacks = bundle_supply.find(t.wish, part)
      if found then bundle_handoffs.hand_on(t, found) elseif lacks then redis.call('HSET', keys.ticket(ticket), 'lacks', lacks) end
    end
  end
  return #waiting
end

-- Serve the oldest bundles that a slot may complete, which has become free. One that lacked several slots when it was looked at last cannot
-- be complete by now: each slot that becomes free is one less. A round looks at all.
function bundle_handoffs.freed(pool, class, part)
  call_state.left_to_look = math.min(call_state.left_to_look, 200)
  for _, ticket in ipairs(redis.call('ZRANGE', keys.bundles, 0, 7)) do
    local lacks = tonumber(redis.call('HGET', keys.ticket(ticket), 'lacks') or '0')
    if lacks > 1 then
      redis.call('HINCRBY', keys.ticket(ticket), 'lacks', -1)
    else
      bundle_handoffs.serve({ticket}, pool, class, part)
    end
  end
end

return bundle_handoffs
