-- Teams: how much of some pools a team is to have. A row says that for a team and a pattern of pools: guarantee, ceiling (nil for none) and
-- weight. The rows of the longest pattern that fits a pool count there. The team of a lease is that of its holder, '' for none.
local teams = {}

local policies, of_pool, kept = {}, {}, 0  -- {pattern, parts, rows: team -> row}, the longest first; pool -> its policy or false
local of_number, of_key, of_generation     -- the state of the store from which they were read

local function load()
  policies, of_pool, kept = {}, {}, 0
  of_number, of_key, of_generation = store.teams, keys.teams, store.generation
  local said, by_pattern = lenient.call({}, 'HGETALL', keys.teams), {}
  for i = 1, #said, 2 do
    local pattern, team = string.match(said[i], '^(.*)\t(.*)$')
    local is_read, row = pcall(cjson.decode, said[i + 1])
    if pattern and is_read and type(row) == 'table' then
      local policy = by_pattern[pattern] or {pattern = pattern, parts = patterns.split(pattern), rows = {}}
      if not by_pattern[pattern] then by_pattern[pattern], policies[#policies + 1] = policy, policy end
      policy.rows[team] = {guarantee = tonumber(row.guarantee) or 0, ceiling = tonumber(row.ceiling), weight = tonumber(row.weight) or 1}
    end
  end
  table.sort(policies, patterns.is_before)
end

-- Return all policies, the longest pattern first. They are read from Redis only after a change.
function teams.all()
  if store.teams == '' then return {} end
  if store.teams ~= of_number or keys.teams ~= of_key or store.generation ~= of_generation then load() end
  return policies
end

-- Return the policy of a pool; nil for none. '' is no pool, although the pattern `*` fits it.
function teams.of(pool)
  if store.teams == '' or pool == '' then return nil end
  local all = teams.all()
  if of_pool[pool] == nil then
    if kept >= 1000 then of_pool, kept = {}, 0 end
    local found = false
    for i = 1, #all do
      if patterns.fits(all[i].parts, pool) then found = all[i] break end
    end
    of_pool[pool], kept = found, kept + 1
  end
  return of_pool[pool] or nil
end

local NONE = {guarantee = 0, weight = 1}

-- Return the row of a team in a policy; one that has none has no guarantee, no ceiling and the weight 1.
function teams.row(policy, team) return policy.rows[team] or NONE end

-- Return how many leases a team has of the pools of a policy.
function teams.held(policy, team) return redis.call('ZCARD', keys.team_leases(policy.pattern .. '\t' .. team)) end

-- Return how many leases of the pools of a policy the reserver wants whose team this is: room is kept for them. Its labels count as pools.
function teams.kept(policy, team)
  local ticket, count = store.bundles and redis.call('HGET', keys.reserver, 'ticket'), 0
  if not ticket or holders.of(redis.call('HGET', keys.ticket(ticket), 'holder')).team ~= team then return 0 end
  local said = redis.call('HGETALL', keys.reserver)
  for i = 1, #said, 2 do
    local of = teams.of(string.match(said[i], '^units:(.*)$') or '')
    if of and of.pattern == policy.pattern then count = count + tonumber(said[i + 1]) end
  end
  return count
end

-- Return whether a team may have no further lease of the pools of a policy.
function teams.at_ceiling(policy, team)
  local ceiling = teams.row(policy, team).ceiling
  return ceiling and teams.held(policy, team) + teams.kept(policy, team) >= ceiling
end

-- Return whether the team that borrows in this call (call_state.team) may have no further lease of a pool.
function teams.is_full(pool)
  local policy = call_state.team and teams.of(pool)
  return policy and teams.at_ceiling(policy, call_state.team)
end

return teams
