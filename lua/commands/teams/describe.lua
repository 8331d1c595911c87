-- Read what teams have and lack; changes nothing. Returns per pattern {pattern, {team, row as JSON or '', leases held, tickets that wait
-- for one slot, leases that are recalled, share, bundles that wait, leases of the reserver for which room is kept}, ...}, the teams in the
-- order in which they are served.
command.read('teams/describe', {}, function()
  -- Return how many bundles of each team wait for what pools of each policy serve, {pattern = {team = number}}; of the oldest 1,000.
  local function count_bundles()
    local counts = {}
    for _, policy in ipairs(teams.all()) do counts[policy.pattern] = {} end
    for _, ticket in ipairs(store.bundles and redis.call('ZRANGE', keys.bundles, 0, 999) or {}) do
      local wish = tickets.read(ticket).wish
      for _, policy in ipairs(wish and teams.all() or {}) do
        local of, is_near = counts[policy.pattern], false
        for _, part in ipairs(wish.parts) do is_near = is_near or team_listings.concerns(policy, part[1]) end
        if is_near then of[wish.team] = (of[wish.team] or 0) + 1 end
      end
    end
    return counts
  end

  local found, bundles_of = {}, count_bundles()
  for _, policy in ipairs(teams.all()) do
    local recalled, rows, waiting = {}, {policy.pattern}, bundles_of[policy.pattern]
    for _, slot in ipairs(redis.call('ZRANGE', keys.recalled(policy.pattern), 0, -1)) do
      local recall_ms, holder = unpack(redis.call('HMGET', keys.slot(slot), 'recall_ms', 'holder'))
      local team = holders.of(holder).team
      if recall_ms then recalled[team] = (recalled[team] or 0) + 1 end
    end
    local said, seen = redis.call('ZRANGE', keys.team_shares(policy.pattern), 0, 511, 'WITHSCORES'), {}
    local function add(team, share)
      seen[team] = true
      rows[#rows + 1] = {team, redis.call('HGET', keys.teams, policy.pattern .. '\t' .. team) or '', teams.held(policy, team),
        (team_needs.waiting(policy, team)), recalled[team] or 0, share, waiting[team] or 0, teams.kept(policy, team)}
    end
    for i = 1, #said, 2 do add(said[i], said[i + 1]) end
    for _, some in ipairs({policy.rows, waiting}) do
      for team in pairs(some) do
        if not seen[team] then add(team, '') end
      end
    end
    found[#found + 1] = rows
  end
  return found
end)
