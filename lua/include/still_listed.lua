-- Is the item of a record still in the list the record names? Walks that list; only for records that are in doubt.
local function still_listed(pool, item, place)
  if place == 'held' then return true end
  return redis.call('LPOS', place == 'free' and key_available(pool) or key_inuse(pool), item) and true or false
end
