-- Changes of teams: after one, what was counted and listed under the rows before is counted and listed anew.
local team_changes = {}

-- Forget the lines of all teams.
local function forget_lines()
  team_listings.each_label(function(label, team)
    for _, want in ipairs(redis.call('ZRANGE', keys.team_wants(label .. '\t' .. team), 0, -1)) do
      redis.call('DEL', team_lines.of(label, want, team))
    end
    team_listings.list(label, team, nil)
    redis.call('DEL', keys.team_wants(label .. '\t' .. team), keys.team_labels(team), keys.team_parked(label))
  end)
  for _, label in ipairs(redis.call('ZRANGE', keys.turns, 0, -1)) do redis.call('DEL', keys.line_teams(label)) end
end

-- Put all tickets that wait into the lines of their teams.
local function make_lines()
  for _, label in ipairs(redis.call('ZRANGE', keys.turns, 0, -1)) do
    for _, ticket in ipairs(redis.call('ZRANGE', keys.queue(label), 0, -1)) do
      local t = tickets.read(ticket)
      if t.label then team_lines.join(t) end
    end
  end
end

-- Forget what was counted for the patterns of before, let recalls go where a pattern is no more, and count anew.
local function count_anew(before, after)
  for _, policy in ipairs(before) do
    for _, slot in ipairs(after[policy.pattern] and {} or redis.call('ZRANGE', keys.recalled(policy.pattern), 0, -1)) do
      team_recalls.release(policy, slot)
    end
    team_counts.forget(policy.pattern)
  end
  team_counts.begin_anew()
end

-- Note a change of the rows under its number, which every call reads: calls look for teams only where there is a row. `before` are the
-- policies that held until now.
function team_changes.note(number, before)
  if redis.call('EXISTS', keys.teams) == 0 then forget_lines() end
  store.teams = redis.call('EXISTS', keys.teams) == 1 and number or ''
  redis.call('HSET', keys.store, 'teams', store.teams, 'teams_number', number)
  local after, same = {}, 0
  for _, policy in ipairs(teams.all()) do after[policy.pattern] = true end
  for _, policy in ipairs(before) do same = same + (after[policy.pattern] and 1 or 0) end
  if same ~= #before or same ~= #teams.all() then count_anew(before, after) end
  if not before[1] and store.teams ~= '' then make_lines() end
  for _, policy in ipairs(teams.all()) do
    for _, team in ipairs(redis.call('ZRANGE', keys.team_shares(policy.pattern), 0, -1)) do team_shares.note(policy, team) end
  end
  team_listings.each_label(team_listings.share)
end

return team_changes
