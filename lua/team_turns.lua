-- Turns of teams: among equal shares the team is next that has had the fewest leases by weight.
local team_turns = {}

local TIE, MOST = 1e-9, 1000  -- the numbers begin anew at MOST, before they count for more than a tie

-- Return what a team has had, and at least what the team that was served last has had.
local function had(policy, team)
  local of, floor = unpack(redis.call('HMGET', keys.team_turns(policy.pattern), 'of:' .. team, 'floor'))
  return math.max(tonumber(of or '0'), tonumber(floor or '0'))
end

-- Return what is added to the share of a team.
function team_turns.tie(policy, team) return had(policy, team) * TIE end

-- Take from what teams have had what the team that was served last had; one that had no more is forgotten.
local function begin_anew(policy, floor)
  local key = keys.team_turns(policy.pattern)
  local said = redis.call('HGETALL', key)
  redis.call('DEL', key)
  for i = 1, #said, 2 do
    local rest = string.sub(said[i], 1, 3) == 'of:' and tonumber(said[i + 1]) - floor or 0
    if rest > 0 then redis.call('HSET', key, said[i], string.format('%.17g', rest)) end
  end
end

-- Begin with so many leases that a team has had.
function team_turns.begin_with(policy, team, count)
  redis.call('HSET', keys.team_turns(policy.pattern), 'of:' .. team, string.format('%.17g', count / teams.row(policy, team).weight))
end

-- Note that a team has one more lease. Returns whether the numbers of all teams have begun anew.
function team_turns.take(policy, team)
  local before = had(policy, team)
  local after = before + 1 / teams.row(policy, team).weight
  redis.call('HSET', keys.team_turns(policy.pattern), 'of:' .. team, string.format('%.17g', after), 'floor',
    string.format('%.17g', before))
  if before < MOST then return false end
  begin_anew(policy, before)
  return true
end

return team_turns
