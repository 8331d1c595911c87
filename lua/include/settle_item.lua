-- What was found in a list and cannot be lent: pool, reason, item, ...
local dropped = {}

-- The record of a popped item, made now if another program put it there; nil when it must not be lent. `slot` is what a
-- glance says of the item.
local function settle_item(pool, item, slot)
  local known = slot and redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place', 'node', 'part', 'idle_ms',
    'reported')
  if not known or known[1] ~= item or known[2] ~= pool or known[3] ~= 'free' then
    -- @include settle_stray
    return settle_stray(pool, item)
  end
  return {slot = slot, item = item, pool = pool, node = known[4], part = known[5], own_idle_ms = known[6],
    reported = known[7]}
end
