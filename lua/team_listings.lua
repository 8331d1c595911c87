-- Listings of teams: each label that a team waits for is listed for it under the pools that may serve the label. The turn that is listed is
-- never later than that of the label, and is put right where it is met.
local team_listings = {}

-- Return whether a label may be served by a pool that a pattern fits, as far as the text before the first `*` says.
function team_listings.concerns(policy, label)
  local head = policy.parts[1]
  return string.sub(label, 1, #head) == head or string.sub(head, 1, #label + 1) == label .. ':' or turns.is_wild(label)
end

-- Write the shares of a team that waits for a label, in each policy whose pools may serve it.
function team_listings.share(label, team)
  for _, policy in ipairs(teams.all()) do
    if team_listings.concerns(policy, label) then team_shares.note(policy, team, true) end
  end
end

-- List a label for a team, or take it out.
function team_listings.list(label, team, turn)
  for _, place in ipairs(turn and listings.places(label) or {}) do
    redis.call('ZADD', keys.team_under(place .. '\t' .. team), 'NX', turn, label)
  end
  if turn then return end
  for _, place in ipairs(turns.stems(label)) do redis.call('ZREM', keys.team_under(place .. '\t' .. team), label) end
  if string.find(label, '*', 1, true) then redis.call('ZREM', keys.team_under('*\t' .. team), label) end
end

-- Call a function with each label that tickets wait for and each team of it.
function team_listings.each_label(visit)
  for _, label in ipairs(redis.call('ZRANGE', keys.turns, 0, -1)) do
    for _, team in ipairs(redis.call('SMEMBERS', keys.line_teams(label))) do visit(label, team) end
  end
end

-- List all labels anew, after the way in which labels and pools match has changed.
function team_listings.list_anew()
  if store.teams == '' then return end
  team_listings.each_label(function(label, team)
    redis.call('SREM', keys.team_parked(label), team)
    team_listings.list(label, team, nil)
    team_listings.list(label, team, redis.call('ZSCORE', keys.turns, label))
    team_listings.share(label, team)
  end)
end

return team_listings
