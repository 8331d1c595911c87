-- Free slots with a class or something warm: when they became free, and how one is taken out of the middle of a list.
local free_slots = {}

-- Return the instant at which a slot enters a free list, in us; later than that of a slot before it in this call.
function free_slots.now_us()
  call_state.entered = (call_state.entered or -1) + 1
  return store.now_us + call_state.entered
end

local DEEP, AROUND = 256, 16  -- how far from both ends of a list a slot is looked up by its place, and how exactly that is known

-- Take an item out of the free list of a pool. Deep in a long list the last item takes its place, so that nothing is searched. Returns
-- whether it was there.
function free_slots.remove(pool, slot, item)
  local list, order = keys.available(pool), keys.order(pool)
  local at, from_end = store.matching and redis.call('ZRANK', order, slot), nil
  if at and at > DEEP then from_end = redis.call('LLEN', list) - at end
  if from_end and from_end > DEEP then
    local place = redis.call('LINDEX', list, at) == item and at
    for i, other in ipairs(place and {} or redis.call('LRANGE', list, at - AROUND, at + AROUND)) do
      if other == item then place = at - AROUND + i - 1 break end
    end
    if place then
      local last, score = redis.call('RPOP', list), redis.call('ZSCORE', order, slot)
      redis.call('LSET', list, place, last)
      local tail = items.glance(last) or ''
      if redis.call('HGET', keys.slot(tail), 'item') == last then redis.call('ZADD', order, 'XX', score, tail) end
      return true
    end
  end
  return redis.call('LREM', list, from_end and from_end < at and -1 or 1, item) == 1
end

-- Forget free slots of a pool whose items another program has taken: of those that are older than the slot at the head of the list, at most
-- as many as the list lacks, and 1,000. Another program may have put a younger slot there, so those near the head are left.
function free_slots.forget_taken(pool)
  local list, order, near = keys.available(pool), keys.order(pool), {}
  local head = redis.call('LINDEX', list, 0)
  local rank = head and redis.call('ZRANK', order, items.glance(head) or '')
  local gone = math.min(rank or head and 0 or 1000, redis.call('ZCARD', order) - redis.call('LLEN', list), 1000)
  if gone <= 0 then return end
  for _, item in ipairs(redis.call('LRANGE', list, 0, gone + 64)) do near[items.glance(item) or ''] = true end
  for _, slot in ipairs(redis.call('ZRANGE', order, 0, gone - 1)) do
    if not near[slot] then classes.taken(slot, pool) end
  end
end

-- Return how many slots of a pool suit a want: free, lent and all. Of more than 2,000 slots all that are not free count as lent.
function free_slots.count(pool, want)
  local free, lent, all, exact = 0, 0, 0, redis.call('SCARD', keys.pool_slots(pool)) <= 2000
  for _, class in ipairs(classes.suiting(want)) do
    free = free + redis.call('ZCARD', keys.free_in(pool .. ' ' .. class))
    all = all + tonumber(redis.call('HGET', keys.pool_classes(pool), class) or '0')
  end
  for _, slot in ipairs(exact and all > free and redis.call('SMEMBERS', keys.pool_slots(pool)) or {}) do
    local place, class = unpack(redis.call('HMGET', keys.slot(slot), 'place', 'class'))
    if place == 'lent' and wants.suits(want, class) then lent = lent + 1 end
  end
  return free, exact and lent or all - free, all
end

return free_slots
