-- Serving below: giving free slots to waiters where a cap on what is served has room.
local serving_below = {}

-- Return the label whose turn it is for free slots of a pool and, with a class, for tickets that want what the class has, and its turn.
local function label_of(pool, class)
  if not teams.of(pool) then return (class and fits or waiters).next_label(pool, class) end
  local t = team_waiters.next(pool, class)
  return t and t.label, t and tonumber(redis.call('ZSCORE', keys.turns, t.label))
end

-- Return the label whose turn it is among those that the free slots of pools at and below a label may serve: label, pool, and the class of
-- the slot where the label is listed under one. `done` are pools, or pools and classes, in which nothing is found.
local function next_label(below, done)
  local label, turn, best, best_class
  local function consider(want, its_turn, pool, class)
    if want and its_turn and (not turn or its_turn < turn) then label, turn, best, best_class = want, its_turn, pool, class end
  end
  local function look(pool)
    if redis.call('EXISTS', keys.available(pool)) == 0 or served_caps.reached(pool) then return end
    if not done[pool] then
      local want, its_turn = label_of(pool)
      consider(want, its_turn, pool)
    end
    for _, class in ipairs(store.matching and redis.call('ZRANGE', keys.free_classes(pool), 0, -1) or {}) do
      local want, its_turn = done[pool .. ' ' .. class], nil
      if not want then want, its_turn = label_of(pool, class) end
      consider(want, its_turn, pool, class)
    end
  end
  for n = 2, 8 do served_caps.each_below(below, keys.open_pools(n), look) end
  return label, best, best_class
end

-- Serve waiters from the free slots of the pools at and below a label whose cap on what is served has room, the labels in turn.
function serving_below.serve(below)
  local done = {}
  while turns.anybody() and store.settle_left_ms <= 0 and call_state.served < 32 do
    local label, pool, class = next_label(below, done)
    if not label then return end
    local found
    if class and not pools.under_maintenance(pool) then
      found = choosing.of_classes(pool, {class})
    elseif not class then
      found = teams.of(pool) and supply.take(pool) or not teams.of(pool) and matching.find(label)
    end
    local waiter = found and waiters.next(found.pool, found.class)
    if not waiter then
      done[class and pool .. ' ' .. class or pool] = true
      if found then supply.give_up(found) end
    else
      handoffs.hand_on(waiter, found)
      call_state.served = call_state.served + 1
    end
  end
end

return serving_below
