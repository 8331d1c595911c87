-- Checks and repairs of teams: their leases and their shares.
local doctor_teams = {}
local parts, policy_of = doctor_team_members.parts, doctor_team_members.policy

-- Return the pool and the holder of the lease of a slot where its team does not count it; nil else.
local function uncounted(slot)
  local pool, holder = unpack(redis.call('HMGET', keys.session(slot), 'poolLabel', 'holder'))
  local policy = pool and teams.of(pool)
  local counts = not policy or redis.call('ZSCORE', keys.team_leases(policy.pattern .. '\t' .. holders.of(holder).team), slot)
  if not counts then return pool, holder end
end

-- Check what the team of a lease knows of it, and that a lease whose record says that it is recalled is among those that are.
function doctor_teams.check_lease(say, slot, is_granted)
  if doctor_team_members.is_off() then return end
  say('not of its team', is_granted and uncounted(slot))
  say('recalled in vain', doctor_team_recalls.in_vain(slot))
end

-- Count a lease for its team, and let a lease that is not among the recalled ones be renewed.
function doctor_teams.repair_lease(slot)
  local pool, holder = uncounted(slot)
  if pool then team_shares.count(slot, pool, holder, redis.call('HGET', keys.slot(slot), 'granted_ms') or nil) end
  doctor_team_recalls.repair(slot)
end

-- Return the least and the most that the share of a team can be by its row, its leases and its past ones: what the team that was served
-- last has had counts for it as it was when the share was written.
local function due(policy, team)
  local row, held = teams.row(policy, team), teams.held(policy, team)
  if row.ceiling and held >= row.ceiling then return math.huge, math.huge end
  local share = held < row.guarantee and held / row.guarantee - 2 or held / row.weight
  local had = tonumber(redis.call('HGET', keys.team_turns(policy.pattern), 'of:' .. team) or '0')
  return share + had * 1e-9, share + team_turns.tie(policy, team)
end

-- Check that the share of a team follows from its row and its leases. A team that holds nothing and does not wait has none.
function doctor_teams.check_share(say, _, pattern, team)
  local policy, listed = policy_of(pattern), redis.call('ZSCORE', keys.team_shares(pattern), team)
  if not policy or not listed and teams.held(policy, team) == 0 then return end
  local least, most = due(policy, team)
  listed = listed == 'inf' and math.huge or tonumber(listed or nil)
  say('differs', not listed or listed < least or listed > most)
end

function doctor_teams.repair_share(pattern, team)
  local policy = policy_of(pattern)
  if policy then team_shares.note(policy, team) end
end

-- How a member is taken out of an index where more follows from it.
doctor_teams.take_out = {
  team_leases = function(name, slot)
    redis.call('ZREM', keys.team_leases(name), slot)
    local pattern, team = parts(name)
    doctor_teams.repair_share(pattern, team)
  end,
}

return doctor_teams
