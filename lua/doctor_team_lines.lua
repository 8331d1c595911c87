-- Checks and repairs of the lines of teams.
local doctor_team_lines = {}
local parts, of_line = doctor_team_members.parts, doctor_team_members.of_line

-- Return whether a member of a sorted set is listed no later than `bound`.
local function is_below(index, member, bound)
  local listed = tonumber(redis.call('ZSCORE', index, member) or nil)
  return listed and listed <= tonumber(bound)
end

-- Return whether a label, which has a turn, is listed for a team where pools look, or is parked while its cap is reached.
local function is_offered(label, team, turn)
  if caps.reached(label) and redis.call('SISMEMBER', keys.team_parked(label), team) == 1 then return true end
  for _, place in ipairs(listings.places(label)) do
    if not is_below(keys.team_under(place .. '\t' .. team), label, turn) then return false end
  end
  return true
end

-- Check that a line is found from its label and from its team, that both are listed no later than their turn and their first ticket, and
-- that the team has a share, by which it is served.
function doctor_team_lines.check(say, _, name)
  local label, want, team = of_line(name)
  local first = redis.call('ZRANGE', keys.team_line(name), 0, 0, 'WITHSCORES')[2]
  if not first or doctor_team_members.is_off() or store.teams == '' then return end
  local turn = redis.call('ZSCORE', keys.turns, label)
  local found = redis.call('SISMEMBER', keys.line_teams(label), team) + redis.call('SISMEMBER', keys.team_labels(team), label) == 2
  for _, policy in ipairs(teams.all()) do
    found = found and (not team_listings.concerns(policy, label) or redis.call('ZSCORE', keys.team_shares(policy.pattern), team))
  end
  say('not found', not found)
  say('too late', not is_below(keys.team_wants(label .. '\t' .. team), want, first))
  say('not offered', turn and not is_offered(label, team, turn))
end

function doctor_team_lines.repair(name)
  local label, want, team = of_line(name)
  local first = redis.call('ZRANGE', keys.team_line(name), 0, 0, 'WITHSCORES')[2]
  if not first then return end
  redis.call('SADD', keys.line_teams(label), team)
  redis.call('SADD', keys.team_labels(team), label)
  redis.call('ZADD', keys.team_wants(label .. '\t' .. team), 'LT', first, want)
  redis.call('SREM', keys.team_parked(label), team)
  if not redis.call('ZSCORE', keys.turns, label) then turns.take(label) end
  team_listings.list(label, team, nil)
  team_listings.list(label, team, redis.call('ZSCORE', keys.turns, label))
  for _, policy in ipairs(teams.all()) do
    if team_listings.concerns(policy, label) then team_shares.note(policy, team, true) end
  end
  serving.label(label, true)
end

-- How a member is taken out of an index where more follows from it.
doctor_team_lines.take_out = {
  team_line = function(name, ticket)
    local label, want, team = of_line(name)
    team_lines.leave(label, want, team, ticket)
  end,
  -- Of a line that is lost nothing is left, as if its last ticket left it.
  team_wants = function(name, want)
    local label, team = parts(name)
    redis.call('ZADD', team_lines.of(label, want, team), 0, '')
    team_lines.leave(label, want, team, '')
  end,
}

return doctor_team_lines
