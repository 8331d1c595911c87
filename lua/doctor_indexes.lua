-- Checks and repairs of indexes: each member must belong to the index in which it is listed.
local doctor_indexes = {}

-- Ask the rule of this kind of index whether a member belongs to it.
local function belongs(kind, owner, member)
  local of = doctor_members.belongs[kind] or doctor_task_members.belongs[kind] or doctor_line_members.belongs[kind]
  of = of or doctor_limit_members.belongs[kind] or doctor_bundles.belongs[kind]
  return (of or doctor_team_members.belongs[kind] or doctor_team_recalls.belongs[kind])(owner, member)
end

-- Return the score of a member in a sorted set as a number; nil where it is not a member.
function doctor_indexes.place_in(index, member) return tonumber(redis.call('ZSCORE', index, member) or '') end

local HOLDS = {set = 'SISMEMBER', zset = 'ZSCORE', hash = 'HEXISTS'}
local REMOVES = {set = 'SREM', zset = 'ZREM', hash = 'HDEL'}

-- Return the arguments with which Redis finds a member: the key of its index, and its name there. A string or a list is a key of its
-- own for each member: then the key alone.
local function place_of(kind, held_in, owner, member)
  local key = keys[kind]
  if not HOLDS[held_in] then return {key(member)} end
  return {type(key) == 'function' and key(owner) or key, kind == 'orders' and 'recycle:' .. member or member}
end

-- Note 'stray' for a member that is in an index and does not belong there. `held_in` is the Redis type of the index.
function doctor_indexes.check(say, _, kind, held_in, owner, member)
  local held = redis.call(HOLDS[held_in] or 'EXISTS', unpack(place_of(kind, held_in, owner, member)))
  say('stray', held and held ~= 0 and not belongs(kind, owner, member))
end

-- Take a member out of an index to which it does not belong.
function doctor_indexes.repair(kind, held_in, owner, member)
  if belongs(kind, owner, member) then return end
  local take_out = doctor_lines.take_out[kind] or doctor_bundles.take_out[kind] or doctor_teams.take_out[kind]
    or doctor_team_lines.take_out[kind] or doctor_team_recalls.take_out[kind] or doctor_limit_members.take_out[kind]
  if take_out then return take_out(owner, member) end
  redis.call(REMOVES[held_in] or 'DEL', unpack(place_of(kind, held_in, owner, member)))
  if kind == 'pool_slots' and redis.call('EXISTS', keys.pool_slots(owner)) == 0 then redis.call('ZREM', keys.pools, owner) end
  if kind == 'job_queue' then
    job_queue.set_head(owner)
    jobs.check_orphan(owner)
  end
end

return doctor_indexes
