-- Turns to reserve: which bundle slots are set aside for, and for how long.
local reserve_turns = {}

local function none() return 0 end

-- Return whether the published slots are enough for a bundle, and the node on which it would best wait, '' for any.
local function fits(t)
  if bundle_plans.over_cap(t.wish, none) then return false end
  if not t.wish.same_node then return bundle_plans.assign(t.wish, bundle_cells.published(t.wish, none)) and true, '' end
  local best, most
  for _, part in ipairs((bundle_nodes.published(t.wish, none))) do
    local _, free = bundle_plans.assign(t.wish, bundle_cells.of_node(t.wish, part), true)
    if not most or free > most then best, most = part, free end
  end
  return best ~= nil, best
end

-- Make the oldest bundle that has waited for `patience_ms`, and for which what is published is enough, the reserver. Returns it or nil. A
-- call looks at some; the next one goes on there.
function reserve_turns.choose(patience_ms)
  local at = tonumber(redis.call('HGET', keys.store, 'reserve_at') or '0')
  local page = redis.call('ZRANGE', keys.bundles, at, at + 63)
  redis.call('HSET', keys.store, 'reserve_at', page[64] and at + 64 or 0)
  for n, ticket in ipairs(page) do
    local t = bundle_handoffs.waiting(ticket)
    local since_ms = t and tonumber(redis.call('HGET', keys.ticket(ticket), 'patient_since_ms') or '')
    local can, node
    if since_ms and store.clock_ms - since_ms >= patience_ms then can, node = fits(t) end
    if can then
      redis.call('DEL', keys.reserver)
      redis.call('HSET', keys.reserver, 'ticket', ticket, 'node', node, 'since_ms', numbers.whole(store.clock_ms))
      for label, count in pairs(bundle_wishes.counts(t.wish)) do
        redis.call('HSET', keys.reserver, 'units:' .. label, count)
        turns.reoffer(label)
      end
      history.ticket('ticket.reserves', t, node)
      redis.call('HSET', keys.store, 'reserve_at', 0)
      return reserver.now()
    end
    if call_state.left_to_look <= 0 then return redis.call('HSET', keys.store, 'reserve_at', at + n) and nil end
  end
end

-- Return whether the reserver may go on: its hub ticks, and what is published is still enough. One that has reserved for `most_ms` goes to
-- the end of the line, and waits as long again before its patience counts.
function reserve_turns.may_go_on(t, most_ms)
  if not hubs.is_heard(t.hub) then
    bundle_line.end_reserve()
    if not t.is_away then tickets.set_aside(t, 'hub') end
    return false
  end
  local enough = store.clock_ms - t.reserves_since_ms < most_ms
  if not enough and not t.is_away then
    t.score = queue_order.next_score(0)
    redis.call('ZADD', keys.bundles, t.score, t.id)
    redis.call('HSET', keys.ticket(t.id), 'score', t.score, 'patient_since_ms', numbers.whole(store.clock_ms + most_ms))
  elseif enough and t.node == '' then
    enough = fits(t)
  elseif enough then
    enough = not drains.holds_back(t.node) and bundle_plans.assign(t.wish, bundle_cells.of_node(t.wish, t.node, true, none))
  end
  if not enough then bundle_line.end_reserve() end
  return enough
end

return reserve_turns
