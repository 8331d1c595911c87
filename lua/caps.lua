-- Caps: how many leases may be in flight under a label.
local caps = {}

-- Return the cap of a label, 0 for no limit. A cap that was set at run time counts before one from the environment, and for each of the
-- two a cap of this label before the default.
function caps.of(label)
  if not store.has_caps then return 0 end
  local set = redis.call('HMGET', keys.caps, 'set:' .. label, 'env:' .. label, 'set', 'env')
  return tonumber(set[1] or set[2] or set[3] or set[4] or '0')
end

-- Return how many leases are in flight under a label.
function caps.live(label) return redis.call('ZCARD', keys.in_flight(label)) end

-- Return the same, with the leases for which the reserver waits: room under a cap is kept for them.
function caps.taken(label)
  return caps.live(label) + (store.bundles and tonumber(redis.call('HGET', keys.reserver, 'units:' .. label) or '0') or 0)
end

-- Return whether a label has a cap and as many leases in flight as the cap allows.
function caps.reached(label)
  local cap = caps.of(label)
  return cap > 0 and caps.taken(label) >= cap
end

-- Note in hub:store, which every call reads, whether there is any cap, and any on what is served: calls look for caps only then.
-- Two fields, as older hubs beside this one know only the first.
function caps.note()
  store.has_caps, store.has_served_caps = redis.call('EXISTS', keys.caps) == 1, false
  for _, field in ipairs(redis.call('HKEYS', keys.caps)) do
    if string.sub(field, 1, 7) == 'served:' then store.has_served_caps = true end
  end
  redis.call('HSET', keys.store, 'capped', store.has_caps and '1' or '0', 'served_capped', store.has_served_caps and '1' or '0')
end

return caps
