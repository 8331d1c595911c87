-- Classes: slots with the same attributes, and which of them are free. Slots that were published without attributes have no class.
local classes = {}

local all = {}                -- a store -> the list of its classes, and the stamp at which it was read
local suiting, kept = {}, 0  -- want -> the existing classes that suit it, and the stamp; and how many wants are in there

local function stamp() return store.database .. ' ' .. keys.classes .. store.generation .. tostring(store.matching) end

-- Note that the classes are others than before, or that a ticket wants something: from then on calls look for both.
function classes.changed()
  store.matching = numbers.whole(redis.call('HINCRBY', keys.store, 'matching', 1))
end

-- Return the classes that exist.
function classes.all()
  local now, name = stamp(), store.database .. ' ' .. keys.classes
  if not all[name] or all[name].stamp ~= now then all[name] = {stamp = now, list = redis.call('SMEMBERS', keys.classes)} end
  return all[name].list
end

-- Return the existing classes whose slots suit a want, as a list and as a set in one table.
function classes.suiting(want)
  local now, known = stamp(), suiting[want]
  if known and known.stamp == now then return known.list end
  local list = {}
  for _, class in ipairs(classes.all()) do
    if wants.suits(want, class) then list[#list + 1], list[class] = class, true end
  end
  if kept >= 5000 then suiting, kept = {}, 0 end
  if not suiting[want] then kept = kept + 1 end
  suiting[want] = {stamp = now, list = list}
  return list
end

-- Return the key of the pools, of as many segments as this one, that have free slots of a class.
local function pools_with(class, pool)
  local _, colons = string.gsub(pool, ':', '')
  return keys.open_class(numbers.whole(colons + 1) .. ' ' .. class)
end

-- List a slot that is in the free list of its pool, if it is not listed yet. `since` is when it came there, in us.
function classes.enter(slot, pool, class, warm, since)
  if class or warm then redis.call('ZADD', keys.order(pool), 'NX', since, slot) end
  if class then
    redis.call('ZADD', keys.free_in(pool .. ' ' .. class), 'NX', since, slot)
    if redis.call('ZADD', keys.free_classes(pool), 'LT', since, class) == 1 then redis.call('ZADD', pools_with(class, pool), 0, pool) end
  end
  for key in string.gmatch(warm or '', '%S+') do redis.call('ZADD', keys.warm(pool .. ' ' .. key), 'NX', since, slot) end
end

-- Take a slot out of the indexes of free slots.
function classes.leave(slot, pool, class, warm)
  if class or warm then redis.call('ZREM', keys.order(pool), slot) end
  if class and redis.call('ZREM', keys.free_in(pool .. ' ' .. class), slot) == 1 then
    local first = redis.call('ZRANGE', keys.free_in(pool .. ' ' .. class), '0', '0', 'WITHSCORES')
    if first[1] then
      redis.call('ZADD', keys.free_classes(pool), first[2], class)
    else
      redis.call('ZREM', keys.free_classes(pool), class)
      redis.call('ZREM', pools_with(class, pool), pool)
    end
  end
  for key in string.gmatch(warm or '', '%S+') do redis.call('ZREM', keys.warm(pool .. ' ' .. key), slot) end
end

local function of(slot) return unpack(redis.call('HMGET', keys.slot(slot), 'class', 'warm')) end
-- Take a slot that is in no free list any more out of the indexes. Returns its class or false.
function classes.taken(slot, pool)
  local class, warm = of(slot)
  classes.leave(slot, pool, class, warm)
  return class
end

-- List a slot of a free list that was put back there: at its head, or by another program.
function classes.put_back(slot, pool, since)
  local class, warm = of(slot)
  classes.enter(slot, pool, class, warm, since)
end

return classes
