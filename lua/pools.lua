-- Pools: the index of labels with free slots, and maintenance.
local pools = {}

-- Add a label to the index of labels with free slots, of which there is one per number of segments. Returns whether it is new there.
function pools.open(label)
  local _, colons = string.gsub(label, ':', '')
  return redis.call('ZADD', keys.open_pools(colons + 1), 0, label) == 1
end

-- Take a label out of the index of labels with free slots.
function pools.close(label)
  local _, colons = string.gsub(label, ':', '')
  redis.call('ZREM', keys.open_pools(colons + 1), label)
end

-- Return whether a label with `*` matches a pool, under the matching options of the store.
function pools.wild_serves(want, pool)
  local a, b = string.gmatch(want, '[^:]+'), string.gmatch(pool, '[^:]+')
  local left, right = a(), b()
  while left and right do
    if left ~= '*' and left ~= right then return false end
    left, right = a(), b()
  end
  if left then return store.trailing == '1' end
  return not right or store.prefix == '1'
end

-- Return whether a pool may serve a label.
function pools.serves(label, pool)
  if label == pool then return true end
  if store.wildcards == '1' and string.find(':' .. label .. ':', ':*:', 1, true) then return pools.wild_serves(label, pool) end
  if store.trailing == '1' and string.sub(label, 1, #pool + 1) == pool .. ':' then return string.find(pool, ':', 1, true) ~= nil end
  return store.prefix == '1' and string.sub(pool, 1, #label + 1) == label .. ':'
end

-- Return whether a pool is under maintenance, during which it lends nothing, and end a maintenance that is over: when nothing is lent
-- and, after 10 s, each slot of the start has been replaced and there are as many; or after 2 min, as soon as nothing is lent. The flag
-- lives 30 min; what is left of that tells how long the maintenance has lasted.
function pools.under_maintenance(pool)
  local left_ms = redis.call('PTTL', keys.maintenance(pool))
  if left_ms == -2 then return false end
  local on_ms = keys.seconds.maintenance * 1000 - left_ms
  if redis.call('EXISTS', keys.inuse(pool)) == 1 or (left_ms > 0 and on_ms < 10000) then return true end
  local target = tonumber(redis.call('GET', keys.maintenance_target(pool)) or '0')
  local replaced = redis.call('LLEN', keys.available(pool)) >= target
    and redis.call('SINTERCARD', 2, keys.pool_slots(pool), keys.replacing(pool), 'LIMIT', 1) == 0
  if left_ms > 0 and on_ms < 120000 and not replaced then return true end
  redis.call('DEL', keys.maintenance(pool), keys.maintenance_target(pool), keys.maintenance_since(pool),
    keys.maintenance_free(pool), keys.maintenance_lent(pool), keys.replacing(pool))
  history.note('pool.maintenance', 'pool', pool, 'why', 'over')
  call_state.reopened[#call_state.reopened + 1] = pool
  return false
end

-- Return up to 100 labels of several indexes that follow each other, in order, and whether there may be more.
function pools.page(indexes, from, upto)
  if not indexes[2] then
    local page = redis.call('ZRANGE', indexes[1], from, upto, 'BYLEX', 'LIMIT', 0, 100)
    return page, page[100]
  end
  local seen, found, last = {}, {}, nil
  for _, index in ipairs(indexes) do
    local page = redis.call('ZRANGE', index, from, upto, 'BYLEX', 'LIMIT', 0, 100)
    if page[100] and not (last and numbers.below(last, page[100])) then last = page[100] end
    for _, label in ipairs(page) do
      if not seen[label] then seen[label], found[#found + 1] = true, label end
    end
  end
  table.sort(found, numbers.below)
  while last and numbers.below(last, found[#found]) do found[#found] = nil end
  return found, last
end

return pools
