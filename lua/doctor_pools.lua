-- Checks and repairs of pools: the indexes of their labels.
local doctor_pools = {}

-- Check the indexes of a pool. `segments` is the number of segments of the index of open pools in which its label was found.
function doctor_pools.check(say, _, label, segments)
  local _, colons = string.gsub(label, ':', '')
  local published = redis.call('EXISTS', keys.pool_slots(label)) == 1
  local free = redis.call('EXISTS', keys.available(label)) == 1
  local known = redis.call('ZSCORE', keys.pools, label)
  local open = redis.call('ZSCORE', keys.open_pools(segments), label)
  local elsewhere = tonumber(segments) ~= colons + 1
  say('pool unknown', published and not known)
  say('pool left', known and not published)
  say('not open', not elsewhere and free and published and not open)
  say('open left', open and (elsewhere or not (free or published)))
end

-- Put a label into the indexes of pools in which it belongs, and take it out of the others.
function doctor_pools.repair(label, segments)
  if redis.call('EXISTS', keys.pool_slots(label)) == 1 then
    redis.call('ZADD', keys.pools, 0, label)
  else
    redis.call('ZREM', keys.pools, label)
  end
  redis.call('ZREM', keys.open_pools(segments), label)
  if redis.call('EXISTS', keys.available(label)) == 1 then pools.open(label) else pools.close(label) end
end

return doctor_pools
