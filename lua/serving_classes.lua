-- Serving by class: giving slots of classes that are free already to waiters.
local serving_classes = {}

-- Serve waiters from the free slots of a pool that have a class.
function serving_classes.pool(pool)
  if not turns.anybody() or store.settle_left_ms > 0 or redis.call('EXISTS', keys.free_classes(pool)) == 0 then return end
  if pools.under_maintenance(pool) or served_caps.reached(pool) then return end
  for _, class in ipairs(redis.call('ZRANGE', keys.free_classes(pool), 0, -1)) do
    while call_state.served < 32 do
      local waiter = waiters.next(pool, class)
      local found = waiter and choosing.of_classes(pool, {class})
      if not found then break end
      handoffs.hand_on(waiter, found)
      call_state.served = call_state.served + 1
      if served_caps.reached(pool) then return end
    end
  end
end

return serving_classes
