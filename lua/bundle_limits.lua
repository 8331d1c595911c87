-- Limits of bundles: caps on what is served, and ceilings of teams, under which several of their slots may come.
local bundle_limits = {}

-- Return what counts the leases under a cap for a bundle: the reserver need not count the room that is kept for it.
function bundle_limits.live(wish)
  return wish.reserves and function(label) return redis.call('SCARD', keys.served(label)) end or served_caps.taken
end

-- Return the caps on what is served that limit a pool, and the ceiling of a team there, with the room that is left under each.
-- live(label) returns how many leases a cap counts; nil: none. `known` are those that were read before.
function bundle_limits.of(pool, live, known, team)
  local found = {}
  for _, each in ipairs(live and store.has_served_caps and served_caps.above(pool) or {}) do
    known[each[1]] = known[each[1]] or {room = each[2] - live(each[1])}
    found[#found + 1] = known[each[1]]
  end
  local policy = live and teams.of(pool)
  local ceiling = policy and teams.row(policy, team or '').ceiling
  if ceiling then
    known[policy] = known[policy] or {room = ceiling - teams.held(policy, team or '')}
    found[#found + 1] = known[policy]
  end
  return found
end

return bundle_limits
