-- @include store
-- Grants that end before their time, and not by their holder: he is told at once, and the slot is not lent on until he
-- says that he has stopped or the grace is over, whichever comes first.
local revoking = tonumber(opened[13] or '0') > clock_ms  -- whether there may be such a slot

local function revoke(slot, grace_ms)
  local token = redis.call('HGET', key_session(slot), 'leaseToken')
  if not token then return end
  if grace_ms > 0 then
    local until_ms = string.format('%d', clock_ms + grace_ms)
    redis.call('ZADD', key_revoked, until_ms, slot)
    redis.call('HSET', key_revoked_tokens, slot, token)
    if tonumber(until_ms) > tonumber(opened[13] or '0') then redis.call('HSET', key_store, 'revoked_ms', until_ms) end
    opened[13] = until_ms
    revoking = true
  end
  redis.call('PUBLISH', key_revoked_bell(slot), token)
end

-- The ms that the grace of a hub's setting lasts.
local function grace_of_hubs() return tonumber(opened[14] or '5000') end

-- Whether the last holder of a slot may still believe in his grant.
local function believed_in(slot)
  local until_ms = revoking and redis.call('ZSCORE', key_revoked, slot)
  return until_ms and tonumber(until_ms) > clock_ms
end

local function forget_revoked(slot)
  redis.call('ZREM', key_revoked, slot)
  redis.call('HDEL', key_revoked_tokens, slot)
end
