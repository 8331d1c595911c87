-- Class counts: classes come with their first slot and go with their last.
local class_counts = {}

-- Make a class, and list under it the labels that it suits.
function class_counts.create(class, attributes)
  redis.call('HSET', keys.slot_class(class), 'attributes', attributes)
  redis.call('SADD', keys.classes, class)
  classes.changed()
  class_listings.ask(class)
end

-- Return whether this call may make one more class: each is held against all that tickets want, and no call may take long.
function class_counts.may_create()
  call_state.created = (call_state.created or 0) + 1
  return call_state.created == 1 or call_state.created * redis.call('SCARD', keys.all_lines) <= 1000
end

-- Count a slot of a pool for a class, or no longer (-1). A class without slots is forgotten; there is room for another one then.
function class_counts.add(pool, class, by)
  if redis.call('HINCRBY', keys.pool_classes(pool), class, by) <= 0 then redis.call('HDEL', keys.pool_classes(pool), class) end
  if redis.call('HINCRBY', keys.slot_class(class), 'slots', by) > 0 then return end
  class_listings.forget(class)
  redis.call('DEL', keys.slot_class(class))
  redis.call('SREM', keys.classes, class)
  classes.changed()
  for _, slot in ipairs(redis.call('SRANDMEMBER', keys.unclassed, 100)) do
    orders.republish(redis.call('HGET', keys.slot(slot), 'part') or '')
  end
end

return class_counts
