-- Caps: how many leases of a label may be live at once.
local caps = {}

-- The most live leases of a label, 0 for no limit; a value set at run time wins over one from the environment.
function caps.of(label)
  if not store.has_caps then return 0 end
  local set = redis.call('HMGET', keys.caps, 'set:' .. label, 'env:' .. label, 'set', 'env')
  return tonumber(set[1] or set[2] or set[3] or set[4] or '0')
end

function caps.reached(label)
  local cap = caps.of(label)
  return cap > 0 and redis.call('ZCARD', keys.in_flight(label)) >= cap
end

-- Note in hub:store, which every call reads, whether there is any cap at all.
function caps.note()
  store.has_caps = redis.call('EXISTS', keys.caps) == 1
  redis.call('HSET', keys.store, 'capped', store.has_caps and '1' or '0')
end

return caps
