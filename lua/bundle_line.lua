-- The line of bundles: tickets that want several slots at once. There is one for all labels.
local bundle_line = {}

-- Put a ticket into the line. Returns whether it was not there before.
function bundle_line.join(t)
  if not store.bundles then redis.call('HSET', keys.store, 'bundles', '1') end
  store.bundles = true
  return redis.call('ZADD', keys.bundles, t.score, t.id) == 1
end

-- Set no more slots aside for the reserver. `serving.opened` offers those that were, at the end of the call; else a round does.
function bundle_line.end_reserve()
  for _, field in ipairs(redis.call('HKEYS', keys.reserver)) do
    local label = string.match(field, '^units:(.*)$')
    if label then call_state.headroom[#call_state.headroom + 1] = label end
  end
  redis.call('DEL', keys.reserver)
  call_state.unreserved = true
end

-- Take a ticket out of the line. Returns whether it was there.
function bundle_line.step_out(ticket)
  if redis.call('ZREM', keys.bundles, ticket) == 0 then return false end
  if redis.call('HGET', keys.reserver, 'ticket') == ticket then bundle_line.end_reserve() end
  if redis.call('EXISTS', keys.bundles) == 0 then
    redis.call('HDEL', keys.store, 'bundles')
    store.bundles = false
  end
  return true
end

return bundle_line
