-- @include lost_grant
-- @include reporting
-- @include above
-- Whether a grant of what was lost has ended since, or in what was lost, as hubs remember. A grant that ended never comes
-- back, and neither does one below it.
local function has_ended(slot, token)
  local ended = redis.call('HGET', key_ended, slot)
  return ended and not above(token, ended)
end

-- Whether what a node or a hub says to be lent under this token is: it was lent by what the store has lost, everybody is
-- still to say what he knows, and it has not ended.
local function is_live(slot, token)
  return hearing and token ~= '' and lost_grant(token) and not has_ended(slot, token)
end

-- The ms that a grant with this token is lent for at least, because a hub has renewed it: `ttl_ms`, or what is left of that.
local function as_renewed(slot, token, ttl_ms)
  local of, deadline = string.match(redis.call('HGET', key_renewed, slot) or '', '^(%d+)|(%d+)$')
  return of == token and math.max(ttl_ms, deadline - clock_ms) or ttl_ms
end
