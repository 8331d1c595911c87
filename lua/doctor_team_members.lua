-- Rules of the doctor for teams, in the form of those in doctor_members: whether a member belongs to an index.
local doctor_team_members = {}

-- Return the two parts of a name that a tab joins: a pattern, a label or a place, and a team.
function doctor_team_members.parts(name) return string.match(name, '^(.*)\t(.*)$') end
local parts = doctor_team_members.parts

-- Return the label, the want and the team of the name of a line.
function doctor_team_members.of_line(name) return string.match(name, '^(.*)\t(.*)\t(.*)$') end
local of_line = doctor_team_members.of_line

-- Return whether the store says that there are no rows, and there are: then nothing is checked before that is repaired.
function doctor_team_members.is_off() return store.teams == '' and redis.call('EXISTS', keys.teams) == 1 end

-- Return the policy of a pattern; nil for none.
function doctor_team_members.policy(pattern)
  for _, policy in ipairs(teams.all()) do
    if policy.pattern == pattern then return policy end
  end
end
local policy_of = doctor_team_members.policy

doctor_team_members.belongs = {}
local belongs = doctor_team_members.belongs

-- Make a rule of a function that holds while there are rows.
function doctor_team_members.with_rows(rule)
  return function(owner, member) return doctor_team_members.is_off() or store.teams ~= '' and rule(owner, member) end
end
local with_rows = doctor_team_members.with_rows
local function waits(label, team) return redis.call('EXISTS', keys.team_wants(label .. '\t' .. team)) == 1 end

belongs.team_leases = with_rows(function(name, slot)
  local pool, holder = unpack(redis.call('HMGET', keys.session(slot), 'poolLabel', 'holder'))
  local pattern, team = parts(name)
  local policy = pool and teams.of(pool)
  return policy and policy.pattern == pattern and holders.of(holder).team == team
end)
belongs.team_shares = with_rows(function(pattern, team)
  local policy = policy_of(pattern)
  return policy and (teams.held(policy, team) > 0 or redis.call('EXISTS', keys.team_labels(team)) == 1)
end)
belongs.team_turns = with_rows(policy_of)
belongs.team_line = with_rows(function(name, ticket)
  local label, want, team = of_line(name)
  local t = tickets.read(ticket)
  if not t.label or t.wish or holders.of(t.holder).team ~= team or not redis.call('ZSCORE', keys.queue(label), ticket) then return false end
  for _, each in ipairs(alternatives.of(t)) do
    if each[1] == label and (each[2] == '' and '-' or each[2]) == want then return true end
  end
end)
belongs.team_wants = with_rows(function(name, want)
  local label, team = parts(name)
  return redis.call('EXISTS', team_lines.of(label, want, team)) == 1
end)
belongs.line_teams = with_rows(waits)
belongs.team_labels = with_rows(function(team, label) return waits(label, team) end)
belongs.team_parked = with_rows(function(label, team) return waits(label, team) and caps.reached(label) end)
belongs.team_under = with_rows(function(name, label)
  local place, team = parts(name)
  for _, each in ipairs(waits(label, team) and listings.places(label) or {}) do
    if each == place then return true end
  end
end)

return doctor_team_members
