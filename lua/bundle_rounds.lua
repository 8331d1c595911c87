-- Rounds of bundles: what a hub does once a second for those that wait.
local bundle_rounds = {}

-- Set free slots aside that the reserver lacks, offer those again that it cannot use, and lend it all if it has all.
local function gather(t)
  local cells, used = reserver.kept(t), {}
  local kept = #cells
  local free = t.node ~= '' and bundle_cells.of_node(t.wish, t.node) or bundle_cells.free(t.wish)
  for _, cell in ipairs(free) do cells[#cells + 1] = bundle_limits.aside(t, cell) end
  local of = bundle_plans.assign(t.wish, cells, true, kept)
  for u, cell in pairs(of) do
    if cell.found then used[cell.slot], of[u] = true, nil end
  end
  call_state.sets_aside = true
  local taken = bundle_supply.take(t.wish, of)
  call_state.sets_aside = nil
  for _, found in pairs(taken) do
    if found then
      redis.call('HSET', keys.slot(found.slot), 'place', 'held')
      redis.call('SADD', keys.reserved, found.slot)
      used[found.slot] = true
    end
  end
  for _, slot in ipairs(redis.call('SMEMBERS', keys.reserved)) do
    if not used[slot] then call_state.unneeded[#call_state.unneeded + 1] = slot end
  end
  reserver.complete(t, reserver.kept(t))
end

-- Serve bundles from slots that are free, 16 in one round; the next round goes on with others. Of the reserver first.
function bundle_rounds.go(patience_ms, reserve_ms)
  local t = reserver.now()
  if not (t and reserve_turns.may_go_on(t, reserve_ms)) then t = reserve_turns.choose(patience_ms) end
  local function look_anew() call_state.left_to_look = 1000 end
  look_anew()
  if t then gather(t) end
  look_anew()
  local at = tonumber(redis.call('HGET', keys.store, 'bundles_at') or '0')
  local page = redis.call('ZRANGE', keys.bundles, at, at + 15)
  local served = bundle_handoffs.serve(page)
  redis.call('HSET', keys.store, 'bundles_at', served < #page and at + math.max(1, served) or page[16] and at + 16 or 0)
end

return bundle_rounds
