-- Checks and repairs of the rows of teams, and of what the store says of them.
local doctor_team_rows = {}

-- Check that no more is guaranteed of the pools of a pattern than they publish.
function doctor_team_rows.check(say, _, pattern)
  local policy, guaranteed, published = doctor_team_members.policy(pattern), 0, 0
  for _, row in pairs(policy and policy.rows or {}) do guaranteed = guaranteed + row.guarantee end
  for _, pool in ipairs(guaranteed > 0 and redis.call('ZRANGE', keys.pools, 0, -1) or {}) do
    if teams.of(pool) == policy then published = published + redis.call('SCARD', keys.pool_slots(pool)) end
  end
  say('too much', guaranteed > published)
end

-- Return the number of the last change of the rows that the store should name: '' without rows.
local function number()
  return redis.call('EXISTS', keys.teams) == 1 and (redis.call('HGET', keys.store, 'teams_number') or '?') or ''
end

-- Check that the store knows whether there are rows, and which: each call reads them after a change of the number.
function doctor_team_rows.check_store(say)
  say('teams forgotten', store.teams ~= number() and number() ~= '')
  say('teams remembered', store.teams ~= '' and number() == '')
end

-- Count and list anew under a new number what teams hold and wait for.
function doctor_team_rows.repair_store()
  if store.teams == number() then return end
  local before = teams.all()
  if number() ~= '' then
    store.teams, before = number(), {}
    for _, policy in ipairs(teams.all()) do team_counts.forget(policy.pattern) end
  end
  team_changes.note(lease_texts.next_token(), before)
end

return doctor_team_rows
