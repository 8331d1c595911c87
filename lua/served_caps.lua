-- Caps on what is served: how many leases a pool and the pools below it may serve together, whatever labels were asked for.
local served_caps = {}

-- Return the labels with such a cap that are this pool or stand above it, and their caps: {label, cap, ...}.
function served_caps.above(pool)
  local stems, fields, found = turns.stems(pool), {}, {}
  for i, stem in ipairs(stems) do fields[i] = 'served:' .. stem end
  for i, cap in ipairs(redis.call('HMGET', keys.caps, unpack(fields))) do
    if cap then found[#found + 1] = {stems[i], tonumber(cap)} end
  end
  return found
end


-- Return how many leases such a cap counts, with the slots that are set aside for a bundle: room is kept for them.
function served_caps.taken(label)
  local live = redis.call('SCARD', keys.served(label))
  for _, slot in ipairs(store.bundles and redis.call('SMEMBERS', keys.reserved) or {}) do
    local pool = redis.call('HGET', keys.slot(slot), 'pool') or ''
    if string.sub(pool .. ':', 1, #label + 1) == label .. ':' then live = live + 1 end
  end
  return live
end

-- Return the label whose cap keeps a pool from serving a further lease, and the cap; nil where none does.
function served_caps.reached(pool)
  for _, each in ipairs(store.has_served_caps and not call_state.sets_aside and served_caps.above(pool) or {}) do
    if served_caps.taken(each[1]) >= each[2] then return unpack(each) end
  end
end

-- Count a lease for the caps of its pool.
function served_caps.count(slot, pool)
  for _, each in ipairs(store.has_served_caps and served_caps.above(pool) or {}) do redis.call('SADD', keys.served(each[1]), slot) end
end

-- Count a lease no longer, and note for serving.opened the labels whose caps have room again.
function served_caps.uncount(slot)
  if not store.has_served_caps then return end
  local pool = redis.call('HGET', keys.session(slot), 'poolLabel') or redis.call('HGET', keys.slot(slot), 'pool')
  for _, each in ipairs(pool and served_caps.above(pool) or {}) do
    local label, cap = unpack(each)
    if redis.call('SREM', keys.served(label), slot) == 1 and served_caps.taken(label) == cap - 1 then
      call_state.roomy[#call_state.roomy + 1] = label
    end
  end
end

-- Return whether a cap of the pool does not count the lease of a slot.
function served_caps.forgets(slot, pool)
  for _, each in ipairs(store.has_served_caps and served_caps.above(pool) or {}) do
    if redis.call('SISMEMBER', keys.served(each[1]), slot) == 0 then return true end
  end
end

-- Return whether this call has made room under a cap of a pool: its free slots are given in turn to all waiters under that cap.
function served_caps.has_made_room(pool)
  for _, label in ipairs(call_state.roomy) do
    if string.sub(pool .. ':', 1, #label + 1) == label .. ':' then return true end
  end
end

-- Call a function with each label of an index that is this label or stands below it, at most 1,000 of each length.
function served_caps.each_below(label, index, visit)
  if redis.call('ZSCORE', index, label) then visit(label) end
  for _, pool in ipairs(redis.call('ZRANGE', index, '[' .. label .. ':', '(' .. label .. ';', 'BYLEX', 'LIMIT', 0, 1000)) do visit(pool) end
end

-- Count anew the leases that the cap of a label is about.
function served_caps.count_anew(label)
  redis.call('DEL', keys.served(label))
  served_caps.each_below(label, keys.pools, function(pool)
    for _, slot in ipairs(redis.call('SMEMBERS', keys.pool_slots(pool))) do
      if redis.call('HGET', keys.slot(slot), 'place') == 'lent' then redis.call('SADD', keys.served(label), slot) end
    end
  end)
end

return served_caps
