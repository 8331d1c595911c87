-- Counts of teams: what is counted for each team is counted anew after the patterns have changed.
local team_counts = {}

-- Forget what was counted under a pattern.
function team_counts.forget(pattern)
  for _, team in ipairs(redis.call('ZRANGE', keys.team_shares(pattern), 0, -1)) do
    redis.call('DEL', keys.team_leases(pattern .. '\t' .. team))
  end
  redis.call('DEL', keys.team_shares(pattern), keys.team_turns(pattern))
end

-- Count all leases anew, after the patterns have changed. What a team has had begins with what it holds.
function team_counts.begin_anew()
  local found, names = {}, {}
  for _, slot in ipairs(redis.call('ZRANGE', keys.deadlines, 0, -1)) do
    local pool, holder, granted_ms = unpack(redis.call('HMGET', keys.slot(slot), 'pool', 'holder', 'granted_ms'))
    local policy = pool and teams.of(pool)
    if policy then
      local team = holders.of(holder).team
      local name = policy.pattern .. '\t' .. team
      if not found[name] then found[name], names[#names + 1] = {policy = policy, team = team}, name end
      local of = found[name]
      of[#of + 1], of[#of + 2] = granted_ms or numbers.whole(store.clock_ms), slot
    end
  end
  for _, name in ipairs(names) do
    local of = found[name]
    for at = 1, #of, 1000 do redis.call('ZADD', keys.team_leases(name), unpack(of, at, math.min(#of, at + 999))) end
    team_turns.begin_with(of.policy, of.team, #of / 2)
    team_shares.note(of.policy, of.team)
  end
end

return team_counts
