-- Checks and repairs of indexes: each member belongs there.
local doctor_indexes = {}

local function belongs(kind, owner, member)
  return (doctor_members.belongs[kind] or doctor_task_members.belongs[kind])(owner, member)
end

-- The place of a member in an index that is in order, as a number; nil where it is not in it.
function doctor_indexes.place_in(index, member) return tonumber(redis.call('ZSCORE', index, member) or '') end

local HOLDS = {set = 'SISMEMBER', zset = 'ZSCORE', hash = 'HEXISTS'}
local REMOVES = {set = 'SREM', zset = 'ZREM', hash = 'HDEL'}

-- The key of an index, and what stands in it for a member. A string or a list is a member by itself.
local function place_of(kind, held_in, owner, member)
  local key = keys[kind]
  if not HOLDS[held_in] then return {key(member)} end
  return {type(key) == 'function' and key(owner) or key, kind == 'orders' and 'recycle:' .. member or member}
end

-- `held_in` is the type of the index.
function doctor_indexes.check(say, _, kind, held_in, owner, member)
  local held = redis.call(HOLDS[held_in] or 'EXISTS', unpack(place_of(kind, held_in, owner, member)))
  say('stray', held and held ~= 0 and not belongs(kind, owner, member))
end

-- Take a member out of an index that it does not belong into.
function doctor_indexes.repair(kind, held_in, owner, member)
  if belongs(kind, owner, member) then return end
  redis.call(REMOVES[held_in] or 'DEL', unpack(place_of(kind, held_in, owner, member)))
  if kind == 'pool_slots' and redis.call('EXISTS', keys.pool_slots(owner)) == 0 then redis.call('ZREM', keys.pools, owner) end
  if kind == 'job_queue' then
    job_queue.set_head(owner)
    jobs.check_orphan(owner)
  end
end

return doctor_indexes
