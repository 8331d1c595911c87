-- Reports: leases that the store has lost, as nodes and hubs remember them.
local reports = {}

-- Return whether a lease with this token was made in the time whose writes a restart or a wipe of the store has lost; after a wipe those
-- are all leases before. A lease with any other token is known to the store or has ended.
function reports.is_lost(token)
  local lost = redis.call('HMGET', keys.store, 'lost_above', 'lost_below')
  return lost[2] and token ~= '' and not string.find(token, '%D') and numbers.above(token, lost[1]) and not numbers.above(token, lost[2])
end

-- Return whether the lease with this token, or a later one of the slot, has ended, as hubs have said since the loss. A lease that ended
-- never comes back, and neither does an earlier one. An end that a shared secret said does not count against the lease of a user.
local function has_ended(slot, token, holder)
  local bundle = string.match(holder or '', '"bundle":"(b%d+)"')
  if bundle and redis.call('HEXISTS', keys.ended, bundle) == 1 then return true end
  local ended, of_secret = unpack(redis.call('HMGET', keys.ended, slot, slot .. '|secret'))
  if not ended or numbers.above(token, ended) then return false end
  return not (of_secret == token and ended == token and holders.of(holder).user_id ~= '')
end

-- Return whether the store may have lost leases of a bundle, which nodes and hubs may yet report: not of one that has ended since, nor of
-- one that no hub gave, whose number has 19 digits.
function reports.is_bundle_missing(id)
  return #id == 20 and store.hearing and reports.is_lost(string.sub(id, 2)) and redis.call('HEXISTS', keys.ended, id) == 0
end

-- Return whether to believe a node or a hub that says that the lease with this token is running: it was made in what the store has
-- lost, nodes and hubs are still reporting, and it has not ended. `holder` is that of the lease, where it is known.
function reports.is_live(slot, token, holder)
  return store.hearing and token ~= '' and reports.is_lost(token) and not has_ended(slot, token, holder)
end

-- Return how many ms the lease with this token is to last: `ttl_ms`, or what is left of a renewal that a hub has reported, if that is
-- more.
function reports.as_renewed(slot, token, ttl_ms)
  local of, deadline = string.match(redis.call('HGET', keys.renewed, slot) or '', '^(%d+)|(%d+)$')
  return of == token and math.max(ttl_ms, deadline - store.clock_ms) or ttl_ms
end

-- Return whether the store may have lost the lease with this token, and its node or the hub that made it may yet report it. `held` is
-- the token of the lease of the slot that the store knows, or false. Tokens of hubs have 19 digits; others are never missing.
function reports.is_missing(slot, token, held)
  if #token ~= 19 or not reports.is_live(slot, token) or (held and not numbers.above(token, held)) then return false end
  return store.settle_left_ms > 0 or redis.call('HGET', keys.slot(slot), 'reported') ~= store.generation
end

return reports
