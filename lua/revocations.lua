-- Revocations: grants that end early.
local revocations = {}

-- Grants that end before their time, and not by their holder: he is told at once, and the slot is not lent on until he
-- says that he has stopped or the grace is over, whichever comes first.
function revocations.revoke(slot, grace_ms)
  local token = redis.call('HGET', keys.session(slot), 'leaseToken')
  if not token then return end
  if grace_ms > 0 then
    local until_ms = string.format('%d', store.clock_ms + grace_ms)
    redis.call('ZADD', keys.revoked, until_ms, slot)
    redis.call('HSET', keys.revoked_tokens, slot, token)
    if tonumber(until_ms) > tonumber(store.revoked_ms or '0') then redis.call('HSET', keys.store, 'revoked_ms', until_ms) end
    store.revoked_ms = until_ms
    store.revoking = true
  end
  redis.call('PUBLISH', keys.revoked_bell(slot), token)
end

-- The ms that the grace of a hub's setting lasts.
function revocations.grace_ms() return tonumber(store.grace_ms or '5000') end

-- Whether the last holder of a slot may still believe in his grant.
function revocations.believed_in(slot)
  local until_ms = store.revoking and redis.call('ZSCORE', keys.revoked, slot)
  return until_ms and tonumber(until_ms) > store.clock_ms
end

function revocations.forget(slot)
  redis.call('ZREM', keys.revoked, slot)
  redis.call('HDEL', keys.revoked_tokens, slot)
end

return revocations
