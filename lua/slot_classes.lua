-- Slot classes: the class of a slot and what is warm in it, as its node publishes them.
local slot_classes = {}

-- Give a slot attributes, a canonical JSON text or '' for none, and the keys of what is warm in it, with blanks between. A slot whose
-- class would be one more than `most` has none. The indexes of free slots are left to the caller. Returns whether the class or the
-- keys are others than before, and 'too-many-classes', 'again' (nothing was done: it has to be said again in another call) or ''.
function slot_classes.set(slot, pool, attributes, warm, most)
  local before = redis.call('HMGET', keys.slot(slot), 'class', 'warm')
  local class, note = attributes ~= '' and string.sub(redis.sha1hex(attributes), 1, 16), ''
  if class and class ~= before[1] then
    local ends = before[1] and redis.call('HGET', keys.slot_class(before[1]), 'slots') == '1' and 1 or 0
    if redis.call('EXISTS', keys.slot_class(class)) == 0 and not class_counts.has_room(most + ends) then
      class, note = false, 'too-many-classes'
      redis.call('SADD', keys.unclassed, slot)
    elseif not class_counts.make(class, attributes, most == math.huge) then
      return false, 'again'
    end
  end
  if note == '' then redis.call('SREM', keys.unclassed, slot) end
  if warm == '' then redis.call('HDEL', keys.slot(slot), 'warm') else redis.call('HSET', keys.slot(slot), 'warm', warm) end
  if class ~= before[1] then
    if class then
      class_counts.add(pool, class, 1)
      redis.call('HSET', keys.slot(slot), 'class', class)
    else
      redis.call('HDEL', keys.slot(slot), 'class')
    end
    if before[1] then class_counts.add(pool, before[1], -1) end
  end
  return class ~= before[1] or warm ~= (before[2] or ''), note
end

-- Set the same for the slot of a record, which may be in a free list. Returns 'too-many-classes' or '', and whether the slot is free and
-- may be what a waiter wants now.
function slot_classes.change(slot, record, attributes, warm, most)
  if attributes == '' and warm == '' and not store.matching then return '', false end
  if not store.matching then classes.changed() end
  local pool, before = record.pool, redis.call('HMGET', keys.slot(slot), 'class', 'warm')
  local since = record.place == 'free' and before[1] and redis.call('ZSCORE', keys.free_in(pool .. ' ' .. before[1]), slot)
  local changed, note = slot_classes.set(slot, pool, attributes, warm, most)
  if record.place ~= 'free' or not changed then return note, false end
  classes.leave(slot, pool, before[1], before[2])
  classes.put_back(slot, pool, since or free_slots.now_us())
  return note, redis.call('HGET', keys.slot(slot), 'class') ~= before[1] and turns.anybody()
end

-- Return the attributes and the warm keys of a slot, '' for none, so that a new record of it can have them.
function slot_classes.of(slot)
  local class, warm = unpack(redis.call('HMGET', keys.slot(slot), 'class', 'warm'))
  return class and redis.call('HGET', keys.slot_class(class), 'attributes') or '', warm or ''
end

-- Forget the class of a slot whose record is dropped.
function slot_classes.drop(slot, pool)
  local class, warm = unpack(redis.call('HMGET', keys.slot(slot), 'class', 'warm'))
  classes.leave(slot, pool, class, warm)
  if class then class_counts.add(pool, class, -1) else redis.call('SREM', keys.unclassed, slot) end
end

return slot_classes
