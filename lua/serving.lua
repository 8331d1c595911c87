-- Serving: giving slots that are free already to waiters.
local serving = {}

-- Serve waiters from the free slots of a pool: a cap was raised, a lease under it ended, a maintenance is over, a node came back, or
-- another program put slots into a list. At most 32 waiters are served in one call, over all pools and labels.
function serving.pool(pool)
  while turns.anybody() and store.settle_left_ms <= 0 and call_state.served < 32 do
    local waiter = waiters.next(pool)
    local found = waiter and supply.take(pool)
    if not found then return end
    handoffs.hand_on(waiter, found)
    call_state.served = call_state.served + 1
  end
end

-- Serve the waiters of a label from all pools that may serve it.
function serving.label(label)
  turns.reoffer(label)
  while store.settle_left_ms <= 0 and call_state.served < 32 and redis.call('EXISTS', keys.queue(label)) == 1 and not caps.reached(label) do
    local found = matching.find(label)
    if not found then return end
    local waiter = waiters.next(found.pool)
    if not waiter then
      redis.call('LPUSH', keys.available(found.pool), found.item)
      pools.open(found.pool)
      return
    end
    handoffs.hand_on(waiter, found)
    call_state.served = call_state.served + 1
  end
end

-- Serve the waiters for which the call has made room so far: labels in call_state.headroom, pools in call_state.reopened.
function serving.opened()
  if not turns.anybody() then return end
  for _, label in ipairs(call_state.headroom) do serving.label(label) end
  for _, pool in ipairs(call_state.reopened) do serving.pool(pool) end
end

return serving
