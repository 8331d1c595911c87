-- Lines of teams: while there is a row of teams, the tickets of a label stand in lines by team and want as well, beside the line of the
-- label. The score that is listed for a want is never later than that of its first ticket, and is put right where it is met.
local team_lines = {}

-- Return the line of a label, a want and a team.
function team_lines.of(label, want, team) return keys.team_line(label .. '\t' .. want .. '\t' .. team) end

-- Put a ticket, which stands in the queue, into the lines of its team.
function team_lines.join(t)
  local team = holders.of(t.holder).team
  for _, each in ipairs(alternatives.of(t)) do
    local label, want = each[1], each[2] == '' and '-' or each[2]
    redis.call('ZADD', team_lines.of(label, want, team), t.score, t.id)
    redis.call('ZADD', keys.team_wants(label .. '\t' .. team), 'LT', t.score, want)
    if redis.call('SADD', keys.line_teams(label), team) == 1 then
      redis.call('SADD', keys.team_labels(team), label)
      team_listings.list(label, team, redis.call('ZSCORE', keys.turns, label))
      team_listings.share(label, team)
    end
  end
end

-- Take a ticket out of a line of its team. A line without tickets ends.
function team_lines.leave(label, want, team, ticket)
  want = want == '' and '-' or want
  local line = team_lines.of(label, want, team)
  if redis.call('ZREM', line, ticket) == 0 or redis.call('EXISTS', line) == 1 then return end
  redis.call('ZREM', keys.team_wants(label .. '\t' .. team), want)
  if redis.call('EXISTS', keys.team_wants(label .. '\t' .. team)) == 1 then return end
  for _, key in ipairs({keys.line_teams(label), keys.team_parked(label)}) do redis.call('SREM', key, team) end
  redis.call('SREM', keys.team_labels(team), label)
  team_listings.list(label, team, nil)
  if redis.call('EXISTS', keys.team_labels(team)) == 1 then return end
  for _, policy in ipairs(teams.all()) do team_shares.note(policy, team) end
end

-- Take a ticket out of the lines of its team.
function team_lines.step_out(t)
  for _, each in ipairs(alternatives.of(t)) do team_lines.leave(each[1], each[2], holders.of(t.holder).team, t.id) end
end

-- Call a function with each line of a team: label, want, the key of the line.
function team_lines.each(team, visit)
  for _, label in ipairs(redis.call('SMEMBERS', keys.team_labels(team))) do
    for _, want in ipairs(redis.call('ZRANGE', keys.team_wants(label .. '\t' .. team), 0, -1)) do
      visit(label, want, team_lines.of(label, want, team))
    end
  end
end

return team_lines
