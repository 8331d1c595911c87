-- Revocations: leases that end before their time, and not by their holder.
local revocations = {}

-- Tell the holder of a slot that its lease ends early. With a grace, the slot is not lent again until the holder says that it has
-- stopped, or until the grace is over. The holder can ask for a while for the reason: `why`, a code of the history, and `words` of a
-- node or an operator, or ''.
function revocations.revoke(slot, grace_ms, why, words)
  local token, holder = unpack(redis.call('HMGET', keys.session(slot), 'leaseToken', 'holder'))
  if not token then return end
  redis.call('HSET', keys.slot(slot), 'last_holder', holder or '')
  if grace_ms > 0 then revocations.keep(slot, token, store.clock_ms + grace_ms) end
  redis.call('SET', keys.end_reason(slot), token .. '|' .. why .. '|' .. (words or ''), 'EX', keys.seconds.end_reason)
  notifications.publish(keys.revoked_notice(slot), token)
end

-- Note until when, on the hub clock, the last holder of a slot may believe in its lease with this token.
function revocations.keep(slot, token, until_ms)
  redis.call('ZADD', keys.revoked, numbers.digits(until_ms), slot)
  redis.call('HSET', keys.revoked_tokens, slot, token)
  if until_ms > tonumber(store.revoked_ms or '0') then
    store.revoked_ms = numbers.digits(until_ms)
    redis.call('HSET', keys.store, 'revoked_ms', store.revoked_ms)
  end
  store.revoking = true
end

-- Return the grace that the hubs are set to, in ms.
function revocations.grace_ms() return tonumber(redis.call('HGET', keys.store, 'grace_ms') or '5000') end

-- Return whether the last holder of a slot may still believe in its lease.
function revocations.believed_in(slot)
  local until_ms = store.revoking and redis.call('ZSCORE', keys.revoked, slot)
  return until_ms and tonumber(until_ms) > store.clock_ms
end

-- Forget that the last holder of a slot may believe in its lease.
function revocations.forget(slot)
  redis.call('ZREM', keys.revoked, slot)
  redis.call('HDEL', keys.revoked_tokens, slot)
end

return revocations
