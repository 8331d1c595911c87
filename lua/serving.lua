-- Serving: what waiters are given of slots that are free already.
local serving = {}

-- Serve waiters from slots that are free already: a cap was raised or a lease under it ended, a maintenance is over,
-- a node came back, another program put slots into a list. At most 32 in one call.
-- From one pool, to the next waiter.
function serving.pool(pool)
  while turns.anybody() and store.settle_left_ms <= 0 and call_state.served < 32 do
    local waiter = waiters.next(pool)
    local found = waiter and supply.take(pool)
    if not found then return end
    handoffs.hand_on(waiter, found)
    call_state.served = call_state.served + 1
  end
end

-- Serve a label from all pools that it may use, while tickets wait for it.
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

-- Serve the waiters that the changes of this call have made room for.
function serving.opened()
  if not turns.anybody() then return end
  for _, label in ipairs(call_state.headroom) do serving.label(label) end
  for _, pool in ipairs(call_state.reopened) do serving.pool(pool) end
end

return serving
