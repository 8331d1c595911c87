-- Published pools: those that have slots, free or not.
local published_pools = {}

-- Call a function with each published pool that may serve a label, at most 1,000 of each length, until it returns true.
function published_pools.each(label, visit)
  local over
  local function look(pool) over = over or visit(pool) end
  if turns.is_wild(label) then
    for _, pool in ipairs(redis.call('ZRANGE', keys.pools, 0, 999)) do
      if pools.wild_serves(label, pool) then look(pool) end
    end
    return
  end
  for _, stem in ipairs(store.trailing == '1' and turns.stems(label) or {}) do
    if stem ~= label and redis.call('ZSCORE', keys.pools, stem) then look(stem) end
  end
  if store.prefix == '1' then return served_caps.each_below(label, keys.pools, look) end
  if redis.call('ZSCORE', keys.pools, label) then look(label) end
end

return published_pools
