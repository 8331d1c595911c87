-- Shares of teams: what each holds of the pools of a policy, and which team is next. The share of a team is a number; the least is next:
-- first the teams below their guarantee, then those that hold the least by weight, and none at its ceiling.
local team_shares = {}

-- Write the share of a team that holds or waits, or forget it. `enters`: it begins to wait.
function team_shares.note(policy, team, enters)
  local row, held = teams.row(policy, team), teams.held(policy, team)
  if held == 0 and not enters and redis.call('EXISTS', keys.team_labels(team)) == 0 then
    redis.call('ZREM', keys.team_shares(policy.pattern), team)
    return
  elseif held == 0 and not redis.call('ZSCORE', keys.team_shares(policy.pattern), team) and not enters then
    return
  end
  local share = held < row.guarantee and held / row.guarantee - 2 or held / row.weight
  local is_full = row.ceiling and held >= row.ceiling
  share = is_full and '+inf' or string.format('%.17g', share + team_turns.tie(policy, team))
  redis.call('ZADD', keys.team_shares(policy.pattern), share, team)
end

-- Count a lease for its team. granted_ms: when it was made, on the hub clock; nil: now.
function team_shares.count(slot, pool, holder, granted_ms)
  local policy = teams.of(pool)
  if not policy then return end
  local team = holders.of(holder).team
  redis.call('ZADD', keys.team_leases(policy.pattern .. '\t' .. team), granted_ms or numbers.whole(store.clock_ms), slot)
  if not team_turns.take(policy, team) then return team_shares.note(policy, team) end
  for _, each in ipairs(redis.call('ZRANGE', keys.team_shares(policy.pattern), 0, -1)) do team_shares.note(policy, each) end
  team_shares.note(policy, team)
end

-- Count a lease no longer that ends now; note the team for serving.opened where it has room under its ceiling again.
function team_shares.uncount(slot)
  if store.teams == '' then return end
  local pool, holder = unpack(redis.call('HMGET', keys.slot(slot), 'pool', 'holder'))
  if not (pool and holder) then
    local said = redis.call('HMGET', keys.session(slot), 'poolLabel', 'holder')
    pool, holder = pool or said[1], holder or said[2]
  end
  local policy = pool and teams.of(pool)
  if not policy then return end
  local team = holders.of(holder).team
  local was_full = teams.at_ceiling(policy, team)
  if redis.call('ZREM', keys.team_leases(policy.pattern .. '\t' .. team), slot) == 0 then return end
  team_shares.note(policy, team)
  if was_full and turns.anybody() then call_state.teams[#call_state.teams + 1] = team end
end

-- Return up to eight teams of a policy in their order, from the place `at` on, and whether there may be more: those at their ceilings
-- come last and are left out.
function team_shares.next(policy, at)
  local said, found = redis.call('ZRANGE', keys.team_shares(policy.pattern), at, at + 7, 'WITHSCORES'), {}
  for i = 1, #said, 2 do
    if said[i + 1] ~= 'inf' then found[#found + 1] = said[i] end
  end
  return found, #found == 8
end

return team_shares
