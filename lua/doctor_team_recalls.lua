-- Checks and repairs of leases that are recalled for teams.
local doctor_team_recalls = {}

-- Return the time that is listed for a slot under a pattern; nil for none.
local function listed(pattern, slot) return tonumber(redis.call('ZSCORE', keys.recalled(pattern), slot) or nil) end

-- Return the pattern under which the lease of a slot is recalled as its record says; nil for none. A round lets a lease go that is recalled
-- under another pattern than the one that counts now in its pool.
local function pattern_of(slot)
  local place, limited, recall_ms = unpack(redis.call('HMGET', keys.slot(slot), 'place', 'limited', 'recall_ms'))
  for _, policy in ipairs(recall_ms and place == 'lent' and limited == '1' and teams.all() or {}) do
    if listed(policy.pattern, slot) == tonumber(recall_ms) then return policy.pattern end
  end
end

-- Return whether the record of a slot says that its lease is recalled, or that its holder was told so.
local function says(slot)
  local recall_ms, ending = unpack(redis.call('HMGET', keys.slot(slot), 'recall_ms', 'ending'))
  return recall_ms or ending == 'recall'
end

-- Return whether the record of a slot says so, and its lease is not among those that are recalled.
function doctor_team_recalls.in_vain(slot) return says(slot) and not pattern_of(slot) end

-- Let a lease be renewed that is not among those that are recalled.
function doctor_team_recalls.repair(slot)
  if not doctor_team_recalls.in_vain(slot) then return end
  for _, policy in ipairs(teams.all()) do redis.call('ZREM', keys.recalled(policy.pattern), slot) end
  team_recalls.release({pattern = ''}, slot)
end

-- Rules in the form of those in doctor_members. A slot whose recalled lease has ended is listed for a while.
doctor_team_recalls.belongs = {
  recalled = doctor_team_members.with_rows(function(pattern, slot)
    if says(slot) then return pattern_of(slot) == pattern end
    local until_ms = listed(pattern, slot)
    return doctor_team_members.policy(pattern) and until_ms and store.clock_ms < until_ms + team_leases.COMING_MS
  end),
}

-- How a member is taken out of an index where more follows from it.
doctor_team_recalls.take_out = {
  recalled = function(pattern, slot)
    redis.call('ZREM', keys.recalled(pattern), slot)
    doctor_team_recalls.repair(slot)
  end,
}

return doctor_team_recalls
