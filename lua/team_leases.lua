-- Leases of teams, as far as they could be recalled for others.
local team_leases = {}

-- How long a slot may take from the end of its lease until it can be lent, through grace and being made fresh, while no other lease is
-- recalled in its place.
team_leases.COMING_MS = 120000

-- Return the slots whose leases end with that of a slot, itself first; nil where one of them is in another policy.
function team_leases.tied(policy, slot, holder)
  local found = {slot}
  for _, other in ipairs(bundles.tied(holder)) do
    if teams.of(redis.call('HGET', keys.slot(other), 'pool') or '') ~= policy then return nil end
    if other ~= slot then found[#found + 1] = other end
  end
  return found
end

-- Return whether a slot could be lent again soon after its lease has ended.
function team_leases.comes_back(slot, pool)
  local part, node, reported, unwell, barred, claimed = unpack(redis.call('HMGET', keys.slot(slot), 'part', 'node', 'reported', 'unwell',
    'barred', 'claimed'))
  local is_set_aside = store.bundles and redis.call('SISMEMBER', keys.reserved, slot) == 1
  return part and not (is_set_aside or unwell or barred or claimed or drains.holds_back(part) or pools.under_maintenance(pool)
    or suspects.is_suspect(node, part, reported))
end

-- Return how many leases a team has above its guarantee, less those that this call has recalled: `spare` has that of each team.
function team_leases.above(policy, team, spare)
  spare[team] = spare[team] or teams.held(policy, team) - teams.row(policy, team).guarantee
  return spare[team]
end

-- Return the slots of a policy that come back by recalls: {slot, pool, class, team, tied} of each lease, and {slot, pool, class} of each
-- slot whose lease has ended. What is recalled no more is forgotten; release(slot) lets a lease go.
function team_leases.recalled(policy, release)
  local found, said = {}, redis.call('ZRANGE', keys.recalled(policy.pattern), 0, -1, 'WITHSCORES')
  for i = 1, #said, 2 do
    local slot = said[i]
    local place, pool, class, holder, recall_ms = unpack(redis.call('HMGET', keys.slot(slot), 'place', 'pool', 'class', 'holder',
      'recall_ms'))
    local is_here, is_lent = pool and teams.of(pool) == policy, place == 'lent' and recall_ms
    local tied = is_here and is_lent and team_leases.tied(policy, slot, holder)
    local comes = is_here and place == 'held' and store.clock_ms < tonumber(said[i + 1]) + team_leases.COMING_MS
    if tied then
      found[#found + 1] = {slot = slot, pool = pool, class = class, team = holders.of(holder).team, tied = tied}
    elseif is_lent and recall_ms == said[i + 1] then  -- else another policy has recalled it since
      release(slot)
    elseif comes and team_leases.comes_back(slot, pool) then
      found[#found + 1] = {slot = slot, pool = pool, class = class}
    else
      redis.call('ZREM', keys.recalled(policy.pattern), slot)
    end
  end
  return found
end

-- Read a page of the leases of a team, the newest first, into what is known of them: {at, {pool, class, slots: {{slot, rank}, ...}}, ...}.
-- Returns how many they are.
function team_leases.read_on(policy, team, known)
  local page = redis.call('ZREVRANGE', keys.team_leases(policy.pattern .. '\t' .. team), known.at, known.at + 63)
  for n, slot in ipairs(page) do
    local pool, class = unpack(redis.call('HMGET', keys.slot(slot), 'pool', 'class'))
    local name = (pool or '') .. ' ' .. (class or '')
    local group = known[name] or {pool = pool or '', class = class, slots = {}, first = 1}
    if not known[name] then known[name], known[#known + 1] = group, group end
    group.slots[#group.slots + 1] = {slot, known.at + n}
  end
  known.at = known.at + #page
  return #page
end

return team_leases
