-- Read what teams have and lack; changes nothing. Returns per pattern {pattern, {team, row as JSON or '', leases held, tickets that wait,
-- leases that are recalled, share}, ...}, the teams in the order in which they are served.
command.read('teams/describe', {}, function()
  local found = {}
  for _, policy in ipairs(teams.all()) do
    local recalled, rows = {}, {policy.pattern}
    for _, slot in ipairs(redis.call('ZRANGE', keys.recalled(policy.pattern), 0, -1)) do
      local recall_ms, holder = unpack(redis.call('HMGET', keys.slot(slot), 'recall_ms', 'holder'))
      local team = holders.of(holder).team
      if recall_ms then recalled[team] = (recalled[team] or 0) + 1 end
    end
    local said, seen = redis.call('ZRANGE', keys.team_shares(policy.pattern), 0, 511, 'WITHSCORES'), {}
    local function add(team, share)
      seen[team] = true
      rows[#rows + 1] = {team, redis.call('HGET', keys.teams, policy.pattern .. '\t' .. team) or '', teams.held(policy, team),
        (team_needs.waiting(policy, team)), recalled[team] or 0, share}
    end
    for i = 1, #said, 2 do add(said[i], said[i + 1]) end
    for team in pairs(policy.rows) do
      if not seen[team] then add(team, '') end
    end
    found[#found + 1] = rows
  end
  return found
end)
