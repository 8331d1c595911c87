-- Serving: giving slots that are free already to waiters.
local serving = {}

-- Serve waiters from the free slots of a pool: a cap was raised, a lease under it ended, a maintenance is over, a node came back, or
-- another program put slots into a list. At most 32 waiters are served in one call, over all pools and labels.
function serving.pool(pool)
  if store.matching then serving_classes.pool(pool) end
  while turns.anybody() and store.settle_left_ms <= 0 and call_state.served < 32 do
    local waiter = waiters.next(pool)
    local found = waiter and supply.take(pool)
    if not found then return end
    handoffs.hand_on(waiter, found)
    call_state.served = call_state.served + 1
  end
end

-- Return a function that takes a slot for tickets that want nothing in particular of a label: not from a pool in which all teams that
-- wait for it are at their ceilings.
local function taker(label)
  if store.teams == '' then return supply.take end
  return function(pool) return team_waiters.may_have(label, pool) and supply.take(pool) or nil end
end

-- Serve the waiters of a label from all pools that may serve it. Those that want something may have been kept from free slots by a cap of
-- the label alone, or by one that it had (`anew`).
function serving.label(label, anew)
  turns.reoffer(label)
  local kept = store.matching and (anew or caps.of(label) > 0) and redis.call('EXISTS', keys.lines(label)) == 1
  if kept then matching.find(label, serving_classes.pool, listings.classes_of(label)) end
  while store.settle_left_ms <= 0 and call_state.served < 32 and redis.call('EXISTS', turns.plain(label)) == 1
    and not caps.reached(label) do
    local found = matching.find(label, taker(label))
    if not found then return end
    local waiter = waiters.next(found.pool, found.class)
    if not waiter then return supply.give_up(found) end
    handoffs.hand_on(waiter, found)
    call_state.served = call_state.served + 1
  end
end

-- End and offer what the call has noted: call_state.torn and unreserved. Serve the waiters for which it has made room: some labels of each
-- of call_state.teams (the review serves the others), labels in call_state.headroom and roomy, pools in call_state.reopened.
function serving.opened()
  if call_state.torn then bundle_ends.end_torn() end
  if call_state.unreserved then bundle_ends.offer_unused() end
  if not turns.anybody() then return end
  local of_teams = call_state.teams
  call_state.teams = {}  -- a call that ends many tasks comes here for each
  for _, team in ipairs(of_teams) do
    for _, label in ipairs(redis.call('SRANDMEMBER', keys.team_labels(team), 32)) do serving.label(label, true) end
  end
  for _, label in ipairs(call_state.roomy) do serving_below.serve(label) end
  for _, label in ipairs(call_state.passed_over) do serving.label(label, true) end
  while call_state.headroom[1] do
    local labels, seen = call_state.headroom, {}
    call_state.headroom = {}
    for _, label in ipairs(labels) do
      if not seen[label] then serving.label(label) end
      seen[label] = true
    end
  end
  for _, pool in ipairs(call_state.reopened) do serving.pool(pool) end
end

return serving
