-- Rounds of bundles: what a hub does once a second for those that wait.
local bundle_rounds = {}

-- Set free slots aside that the reserver lacks, and lend it all if it has all.
local function gather(t)
  local cells = reserver.kept(t.wish)
  local free = t.node ~= '' and bundle_cells.of_node(t.wish, t.node) or bundle_cells.free(t.wish)
  for _, cell in ipairs(free) do cells[#cells + 1] = cell end
  local of = bundle_plans.assign(t.wish, cells, true)
  for u, cell in pairs(of) do
    if cell.found then of[u] = nil end
  end
  for _, found in pairs(bundle_supply.take(t.wish, of)) do
    if found then
      redis.call('HSET', keys.slot(found.slot), 'place', 'held')
      redis.call('SADD', keys.reserved, found.slot)
    end
  end
  reserver.complete(t, reserver.kept(t.wish))
end

-- Return whether the published slots are enough for a bundle, and the node on which it would best wait, '' for any.
local function fits(t)
  if bundle_plans.over_cap(t.wish, true) then return false end
  if not t.wish.same_node then return bundle_plans.assign(t.wish, bundle_cells.published(t.wish)) and true, '' end
  local best, most
  for _, part in ipairs((bundle_nodes.published(t.wish))) do
    local _, free = bundle_plans.assign(t.wish, bundle_cells.of_node(t.wish, part), true)
    if not most or free > most then best, most = part, free end
  end
  return best ~= nil, best
end

-- Make the oldest bundle that has waited for `patience_ms` the reserver, if what is published is enough for it. Returns it or nil.
local function choose(patience_ms)
  for _, ticket in ipairs(redis.call('ZRANGE', keys.bundles, 0, 7)) do
    local t = bundle_handoffs.waiting(ticket)
    local since_ms = t and tonumber(redis.call('HGET', keys.ticket(ticket), 'patient_since_ms') or '')
    local can, node
    if since_ms and store.clock_ms - since_ms >= patience_ms then can, node = fits(t) end
    if can then
      redis.call('HSET', keys.reserver, 'ticket', ticket, 'node', node, 'since_ms', numbers.whole(store.clock_ms))
      history.ticket('ticket.reserves', t, node)
      return reserver.now()
    end
  end
end

-- Return whether the reserver may go on: its hub ticks, and what is published is still enough. One that has reserved for `most_ms` goes to
-- the end of the line.
local function may_go_on(t, most_ms)
  if not hubs.is_heard(t.hub) then tickets.set_aside(t, 'hub') return false end
  if store.clock_ms - t.reserves_since_ms >= most_ms then
    bundle_line.end_reserve()
    t.score = queue_order.next_score(0)
    redis.call('ZADD', keys.bundles, t.score, t.id)
    redis.call('HSET', keys.ticket(t.id), 'score', t.score, 'patient_since_ms', numbers.whole(store.clock_ms))
    return false
  end
  local enough = t.node == '' and fits(t)
  if t.node ~= '' and not drains.holds_back(t.node) then
    enough = bundle_plans.assign(t.wish, bundle_cells.of_node(t.wish, t.node, true))
  end
  if not enough then bundle_line.end_reserve() end
  return enough
end

-- Serve bundles from slots that are free, 16 in one round; the next round goes on with others. Of the reserver first.
function bundle_rounds.go(patience_ms, reserve_ms)
  local t = reserver.now()
  if not (t and may_go_on(t, reserve_ms)) then t = choose(patience_ms) end
  if t then gather(t) end
  local at = tonumber(redis.call('HGET', keys.store, 'bundles_at') or '0')
  local page = redis.call('ZRANGE', keys.bundles, at, at + 15)
  local served = bundle_handoffs.serve(page)
  redis.call('HSET', keys.store, 'bundles_at', served < #page and at + math.max(1, served) or page[16] and at + 16 or 0)
end

return bundle_rounds
