-- The line of bundles: tickets that want several slots at once. There is one for all labels.
local bundle_line = {}

-- Note in hub:store whether any bundle waits, or slots are set aside for one: only then calls look for that.
local function note()
  local before = store.bundles
  store.bundles = redis.call('EXISTS', keys.bundles, keys.reserver) > 0
  if store.bundles and not before then redis.call('HSET', keys.store, 'bundles', '1') end
  if before and not store.bundles then redis.call('HDEL', keys.store, 'bundles') end
end

-- Put a ticket into the line. Returns whether it was not there before.
function bundle_line.join(t)
  local is_new = redis.call('ZADD', keys.bundles, t.score, t.id) == 1
  if is_new and redis.call('HGET', keys.reserver, 'ticket') == t.id then redis.call('HDEL', keys.reserver, 'away_ms') end
  note()
  return is_new
end

-- Set no more slots aside for the reserver. `serving.opened` offers those that were, at the end of the call; else a round does.
function bundle_line.end_reserve()
  for _, field in ipairs(redis.call('HKEYS', keys.reserver)) do
    local label = string.match(field, '^units:(.*)$')
    if label then call_state.headroom[#call_state.headroom + 1] = label end
  end
  local ticket = store.teams ~= '' and turns.anybody() and redis.call('HGET', keys.reserver, 'ticket')
  local holder = ticket and redis.call('HGET', keys.ticket(ticket), 'holder')  -- room under a ceiling is kept for it no more
  if holder then call_state.teams[#call_state.teams + 1] = holders.of(holder).team end
  redis.call('DEL', keys.reserver)
  call_state.unreserved = true
  note()
end

-- Take a ticket out of the line. What is set aside for it stays so for a while if its caller `comes_again`. Returns whether it was there.
function bundle_line.step_out(ticket, comes_again)
  if redis.call('ZREM', keys.bundles, ticket) == 0 then return false end
  local reserves = redis.call('HGET', keys.reserver, 'ticket') == ticket
  if reserves and comes_again then
    redis.call('HSET', keys.reserver, 'away_ms', numbers.whole(store.clock_ms))
  elseif reserves then
    bundle_line.end_reserve()
  end
  note()
  return true
end

return bundle_line
