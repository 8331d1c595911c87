-- Class counts: classes come with their first slot and go with their last.
local class_counts = {}

-- Forget a class.
function class_counts.drop(class)
  class_listings.forget(class)
  redis.call('DEL', keys.slot_class(class))
  redis.call('SREM', keys.classes, class)
  classes.changed()
end

-- Return whether there is room for a class beside at most `most`, with those that are about to end. A class that is not made yet, and that
-- no hub has gone on making for a minute, makes room.
function class_counts.has_room(most)
  if redis.call('SCARD', keys.classes) < most then return true end
  for _, class in ipairs(classes.all()) do
    local cursor, asked_ms, count = unpack(redis.call('HMGET', keys.slot_class(class), 'cursor', 'asked_ms', 'slots'))
    if cursor and not count and store.clock_ms - tonumber(asked_ms) > 60000 then
      class_counts.drop(class)
      return true
    end
  end
  return false
end

-- Make a class, or go on making it: it is held against all that tickets want, of which one call looks at so many that it takes a few ms.
-- Meanwhile newcomers list themselves under it. A cursor says nothing on another server: there it begins anew. Returns whether it is
-- made; `at_once` makes it in this call.
function class_counts.make(class, attributes, at_once)
  local key = keys.slot_class(class)
  local known, cursor, generation = unpack(redis.call('HMGET', key, 'attributes', 'cursor', 'generation'))
  if known and not cursor then return true end
  if not known then
    redis.call('HSET', key, 'attributes', attributes)
    redis.call('SADD', keys.classes, class)
    classes.changed()
  end
  if generation ~= store.generation then cursor = '0' end
  while cursor and (at_once or call_state.lines_asked < class_listings.AT_ONCE) do
    local count
    cursor, count = class_listings.ask(class, cursor)
    call_state.lines_asked = call_state.lines_asked + count
  end
  redis.call('HDEL', key, 'cursor', 'generation', 'asked_ms')
  if cursor then redis.call('HSET', key, 'cursor', cursor, 'generation', store.generation, 'asked_ms', store.clock_ms) end
  return not cursor
end

-- Count a slot of a pool for a class, or no longer (-1). A class without slots is forgotten; there is room for another one then.
function class_counts.add(pool, class, by)
  if redis.call('HINCRBY', keys.pool_classes(pool), class, by) <= 0 then redis.call('HDEL', keys.pool_classes(pool), class) end
  if redis.call('HINCRBY', keys.slot_class(class), 'slots', by) > 0 then return end
  class_counts.drop(class)
  for _, slot in ipairs(redis.call('SRANDMEMBER', keys.unclassed, 100)) do
    orders.republish(redis.call('HGET', keys.slot(slot), 'part') or '')
  end
end

return class_counts
