-- Limits of bundles: caps on what is served, and ceilings of teams, under which several of their slots may come.
local bundle_limits = {}

-- Return what counts the leases under a cap, or under a ceiling of its team, for a bundle: the reserver need not count the room that is
-- kept for it.
function bundle_limits.live(wish)
  return function(label, policy)
    local team = wish.team or ''
    if policy then return teams.held(policy, team) + (wish.reserves and 0 or teams.kept(policy, team)) end
    return wish.reserves and redis.call('SCARD', keys.served(label)) or served_caps.taken(label)
  end
end

-- Return the ceiling of a team for a pool with the room that is left under it, as bundle_limits.of does.
function bundle_limits.ceiling(pool, live, known, team)
  local policy = live and teams.of(pool)
  local ceiling = policy and teams.row(policy, team or '').ceiling
  if not ceiling then return {} end
  known[policy] = known[policy] or {room = ceiling - live(nil, policy)}
  return {known[policy]}
end

-- Return the caps on what is served that limit a pool, and the ceiling of a team there, with the room that is left under each.
-- live(label, policy) returns how many leases a cap or a ceiling counts; nil: none. `known` are those that were read before.
function bundle_limits.of(pool, live, known, team)
  local found = bundle_limits.ceiling(pool, live, known, team)
  for _, each in ipairs(live and store.has_served_caps and served_caps.above(pool) or {}) do
    known[each[1]] = known[each[1]] or {room = each[2] - live(each[1])}
    found[#found + 1] = known[each[1]]
  end
  return found
end

-- Return a cell whose slots may be set aside: no more than its team has room for under its ceiling, as others may have them meanwhile.
function bundle_limits.aside(t, cell)
  t.rooms = t.rooms or {}
  cell.caps = bundle_limits.ceiling(cell.pool, bundle_limits.live(t.wish), t.rooms, t.wish.team)
  return cell
end

return bundle_limits
