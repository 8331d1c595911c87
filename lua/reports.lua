-- Reports: leases of what the store has lost, as nodes and hubs remember them.
local reports = {}

-- Whether a lease is of the time that a restart or a wipe of the store has lost: all time before, for a wipe. Of any other
-- lease the store knows better: it has ended.
function reports.is_lost(token)
  local lost = redis.call('HMGET', keys.store, 'lost_above', 'lost_below')
  return lost[2] and token ~= '' and not string.find(token, '%D') and numbers.above(token, lost[1]) and not numbers.above(token, lost[2])
end

-- Whether a lease of what was lost has ended since, or in what was lost, as hubs remember. A lease that ended never comes
-- back, and neither does one below it.
local function has_ended(slot, token)
  local ended = redis.call('HGET', keys.ended, slot)
  return ended and not numbers.above(token, ended)
end

-- Whether to believe that a lease with this token is running, as a node or a hub says: it was granted before the store was
-- lost, nodes and hubs are still reporting, and it has not ended.
function reports.is_live(slot, token)
  return store.hearing and token ~= '' and reports.is_lost(token) and not has_ended(slot, token)
end

-- The ms that a lease with this token is lent for at least, because a hub has renewed it: `ttl_ms`, or what is left of that.
function reports.as_renewed(slot, token, ttl_ms)
  local of, deadline = string.match(redis.call('HGET', keys.renewed, slot) or '', '^(%d+)|(%d+)$')
  return of == token and math.max(ttl_ms, deadline - store.clock_ms) or ttl_ms
end

-- Whether a lease with this token may be of what the store has lost, and its node, or the hub that made it, has yet to say
-- so. `held` is the token of the lease that the store knows, if any. Those that hubs make have 19 digits.
function reports.is_missing(slot, token, held)
  if #token ~= 19 or not reports.is_live(slot, token) or (held and not numbers.above(token, held)) then return false end
  return store.settle_left_ms > 0 or redis.call('HGET', keys.slot(slot), 'reported') ~= store.generation
end

return reports
