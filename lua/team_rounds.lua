-- Rounds of teams: what a hub does once a second for teams that lack their guarantees.
local team_rounds = {}

-- How many leases, and how many pairs of a line and a kind of slot, one call looks at for a policy.
local LEASES, PAIRS = 2000, 5000

-- Return what one call knows of a policy; nil where nothing is to be done. rooms and served: as of team_needs.lacking.
local function begin(policy, rooms, served)
  local lacking = team_needs.lacking(policy, rooms, served)
  if not lacking[1] and redis.call('EXISTS', keys.recalled(policy.pattern)) == 0 then return nil end
  local function release(slot) team_recalls.release(policy, slot) end
  return {policy = policy, lacking = lacking, spare = {}, done = {}, groups = {}, first = 1, leases = LEASES, pairs = PAIRS,
    known = team_leases.recalled(policy, release), teams = redis.call('ZRANGE', keys.team_shares(policy.pattern), 0, -1)}
end

local function provide(state, find, turns_on)
  for _, each in ipairs(state.lacking) do
    team_needs.provide(each, function(line) return state.pairs > 0 and find(state.policy, state, line) end, turns_on)
  end
end

-- Recall what teams lack of their guarantees, and take back what nobody needs any more.
function team_rounds.balance()
  local states, rooms, served = {}, {}, {}
  for _, policy in ipairs(teams.all()) do states[#states + 1] = begin(policy, rooms, served) end
  for _, state in ipairs(states) do
    provide(state, team_matches.known, false)
    for _, each in ipairs(state.known) do
      if each.team and not each.line and state.pairs > 0 then team_recalls.release(state.policy, each.slot) end
      if each.team then state.done[each.slot] = true end
    end
  end
  for _, state in ipairs(states) do provide(state, team_recalls.find_new, true) end
end

return team_rounds
