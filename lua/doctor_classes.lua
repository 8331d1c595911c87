-- Checks and repairs of the classes of slots: their attributes, and the indexes in which free slots of a class are found.
local doctor_classes = {}

local function is_listed(slot, pool, class, warm)
  if (class or warm) and not redis.call('ZSCORE', keys.order(pool), slot) then return false end
  if class and not redis.call('ZSCORE', keys.free_in(pool .. ' ' .. class), slot) then return false end
  for key in string.gmatch(warm or '', '%S+') do
    if not redis.call('ZSCORE', keys.warm(pool .. ' ' .. key), slot) then return false end
  end
  return true
end

-- Return the record of a slot with whether it is in the free list of its pool and is not listed there under its class; and its class.
local function read(slot)
  local item, pool, place, class, warm = unpack(redis.call('HMGET', keys.slot(slot), 'item', 'pool', 'place', 'class', 'warm'))
  local hidden = item and pool and place == 'free' and not is_listed(slot, pool, class, warm)
    and redis.call('LPOS', keys.available(pool), item)
  return {pool = pool, warm = warm, hidden = hidden}, class
end

function doctor_classes.check(say, _, slot)
  local record, class = read(slot)
  say('class unknown', class and redis.call('HEXISTS', keys.slot_class(class), 'attributes') == 0)
  say('class unlisted', class and redis.call('SISMEMBER', keys.classes, class) == 0)
  say('hidden', record.hidden)
end

-- Return the pool and the class of a name, since when its first free slot is free, what is listed of that, and the key of such pools.
local function first_of(name)
  local pool, class = doctor_line_members.parts(name)
  local _, colons = string.gsub(pool, ':', '')
  local first = redis.call('ZRANGE', keys.free_in(name), 0, 0, 'WITHSCORES')[2]
  return pool, class, first, redis.call('ZSCORE', keys.free_classes(pool), class), keys.open_class(colons + 1 .. ' ' .. class)
end

-- Check that a class is listed in a pool since its first free slot is free, and the pool among those with such slots.
function doctor_classes.check_offer(say, _, name)
  local pool, _, first, listed, pools_with = first_of(name)
  say('not first', first ~= (listed or nil) or first and not redis.call('ZSCORE', pools_with, pool))
end

function doctor_classes.repair_offer(name)
  local pool, class, first, _, pools_with = first_of(name)
  redis.call('ZREM', keys.free_classes(pool), class)
  redis.call('ZREM', pools_with, pool)
  if first then redis.call('ZADD', keys.free_classes(pool), first, class) redis.call('ZADD', pools_with, 0, pool) end
end

-- List a free slot under its class. The attributes of a class that is not known are lost: its slots have none until they are published.
function doctor_classes.repair(slot)
  local record, class = read(slot)
  if class and redis.call('HEXISTS', keys.slot_class(class), 'attributes') == 0 then
    slot_classes.set(slot, record.pool, '', record.warm or '', 0)
    classes.leave(slot, record.pool, class, record.warm)
    record = read(slot)
    class = false
  elseif class and redis.call('SADD', keys.classes, class) == 1 then
    classes.changed()
    class_listings.ask_all(class)
  end
  if not record.hidden then return end
  classes.enter(slot, record.pool, class, record.warm, store.now_us)
  if class then doctor_classes.repair_offer(record.pool .. ' ' .. class) end
end

-- Store how many slots a class has, in a pool or (`pool` is '') in all, as the doctor counted; nothing is written where the number is no
-- longer `was`. A class without slots is forgotten.
function doctor_classes.repair_count(pool, class, was, count)
  local key, field = keys.slot_class(class), 'slots'
  if pool ~= '' then key, field = keys.pool_classes(pool), class end
  if (redis.call('HGET', key, field) or '0') ~= was then return end
  if count ~= '0' then return redis.call('HSET', key, field, count) and 0 end
  if pool ~= '' then return redis.call('HDEL', key, field) and 0 end
  class_counts.drop(class)
end

return doctor_classes
