-- Recalls: leases that end early because a team is to have its guarantee. They are renewed for no longer than once more their length, and
-- their holders are told. Each recall is for a ticket of a team below its guarantee that the slot suits; one that no ticket needs is taken
-- back. Only leases of teams above their own guarantee are recalled.
local team_recalls = {}

local MOST = 500  -- leases of a policy that are recalled at a time

-- Let a recalled lease be renewed again, and tell its holder.
function team_recalls.release(policy, slot)
  redis.call('HDEL', keys.slot(slot), 'recall_ms')
  redis.call('ZREM', keys.recalled(policy.pattern), slot)
  lease_limits.plan(lease_limits.read(slot))
end

-- Write until when a lease may be renewed, which is as long as it would last if it was renewed now, and tell its holder.
local function recall(policy, slot)
  local lasts_s = tonumber(redis.call('HGET', keys.session(slot), 'ttlSeconds') or '60')
  local at = numbers.whole(store.clock_ms + math.max(1000, lasts_s * 1000))
  redis.call('HSET', keys.slot(slot), 'recall_ms', at, 'limited', '1')
  redis.call('ZADD', keys.recalled(policy.pattern), at, slot)
  local r = lease_limits.read(slot)
  local ends, why = lease_limits.ending(r)
  if why == 'recall' then lease_limits.warn(r, ends, why) end
end

-- Recall a lease that suits a line, of the team that is furthest above its guarantee. Returns it as team_matches.use takes it, or nil.
local function recall_one(policy, state, line)
  local tried = {}
  if #state.known >= MOST then return nil end
  while true do
    local team, most
    for _, other in ipairs(state.teams) do
      local has = tried[other] and 0 or team_leases.above(policy, other, state.spare)
      if has > 0 and (not most or has > most) then team, most = other, has end
    end
    if not team then return nil end
    tried[team] = true
    local found = team_matches.newest(policy, state, team, line)
    if found then
      recall(policy, found.slot)
      state.known[#state.known + 1] = found
      return found
    end
  end
end

-- Recall a lease for a ticket of a line, or for one of another line whose slot suits this one. Returns whether there is one.
function team_recalls.find_new(policy, state, line, tried)
  local found = recall_one(policy, state, line)
  if found then return team_matches.use(state, found, line) end
  return team_matches.change(state, line, tried or {}, function(other, seen) return team_recalls.find_new(policy, state, other, seen) end)
end

return team_recalls
