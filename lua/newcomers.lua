-- Newcomers: borrows that are served from what is free now, or wait from now on.
local newcomers = {}

-- Serve a ticket from slots that are free already, or others whose turn it is for such a slot.
function newcomers.serve_again(t, prefer)
  for _, each in ipairs(store.settle_left_ms <= 0 and alternatives.of(t) or {}) do
    local label, take, among = each[1], choosing.taker(each[2], prefer)
    turns.reoffer(label)
    while call_state.served < 32 and redis.call('ZSCORE', keys.queue(label), t.id) and not caps.reached(label) do
      call_state.team = store.teams ~= '' and holders.of(t.holder).team or nil
      local found = matching.find(label, take, among)
      call_state.team = nil
      local waiter = found and waiters.next(found.pool, found.class)
      if found and not waiter then supply.give_up(found) end
      if not waiter then break end
      handoffs.hand_on(waiter, found)
      call_state.served = call_state.served + 1
    end
  end
end

-- Lend a newcomer a slot that is free, under a label, unless its cap is reached. Slots that appeared unnoticed go to waiters first.
local function lend(wanted, label, take, among)
  if caps.reached(label) then return nil end
  local waiter
  for _ = 1, 20 do
    local found = not (waiter and caps.reached(label)) and matching.find(label, take, among)
    if not found then return nil end
    waiter = turns.anybody() and waiters.next(found.pool, found.class)
    if not waiter then
      wanted.label = label
      leases.grant(wanted, found)
      history.granted('grant.lent', found, wanted.id, wanted)
      return found
    end
    handoffs.hand_on(waiter, found)
  end
end

-- Lend a newcomer a slot that is free, as one of its alternatives, the preferred one first. Returns the slot or nil.
function newcomers.lend(wanted)
  call_state.team = store.teams ~= '' and holders.of(wanted.holder).team or nil
  local found = not wanted.alternatives and lend(wanted, wanted.label)
  for _, each in ipairs(wanted.alternatives or {}) do found = found or lend(wanted, each[1], choosing.taker(each[2], wanted.prefer)) end
  call_state.team = nil
  return found or nil
end

-- Return the label of the first alternative of a newcomer whose cap is reached, and how many leases it has; nil for none.
function newcomers.capped(wanted)
  if not store.has_caps then return nil end
  for _, each in ipairs(alternatives.of(wanted)) do
    if caps.reached(each[1]) then return each[1], redis.call('ZCARD', keys.in_flight(each[1])) end
  end
end

-- Return the same for caps on what is served.
function newcomers.served_capped(wanted)
  for _, each in ipairs(alternatives.of(wanted)) do
    local label, cap = served_caps.reached(each[1])
    if label then return label, cap end
  end
end

return newcomers
