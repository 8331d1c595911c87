-- Freshness: slots with the policy `fresh`. When a lease of such a slot ends, it is held back until its node says that it is fresh after
-- that end. Ends are numbered by the counter of tokens, so the numbers of a slot only rise: a late word about an earlier end frees nothing.
local freshness = {}

-- Note that the store has slots with this policy: only then calls look for it.
function freshness.in_use()
  if store.freshens then return end
  redis.call('HSET', keys.store, 'freshens', '1')
  store.freshens = true
end

-- Return whether a slot is to be made fresh before it may be lent.
function freshness.is_owed(slot) return store.freshens and redis.call('HEXISTS', keys.slot(slot), 'owed') == 1 end

-- Note that a slot is to be made fresh before it may be lent, and tell its node. The caller decides where the slot is.
function freshness.owe(slot, part)
  local number = lease_texts.next_token()
  redis.call('HSET', keys.slot(slot), 'owed', number)
  redis.call('ZADD', keys.unfresh, numbers.whole(store.clock_ms), slot)
  redis.call('HSET', keys.orders(part), 'end:' .. slot, number)
  orders.changed(part)
end

local function settle(slot, part, number)
  redis.call('HDEL', keys.slot(slot), 'owed')
  if number ~= '' then redis.call('HSET', keys.slot(slot), 'made', number) end
  redis.call('ZREM', keys.unfresh, slot)
  redis.call('HDEL', keys.orders(part), 'end:' .. slot)
end

-- Return the last end for which a slot was made fresh: `number`, as its node says now, or the one that the store knows. A number that
-- this store has not counted so far is not believed.
function freshness.latest(slot, number)
  if numbers.above(number, store.token) then number = '' end
  local made = store.freshens and redis.call('HGET', keys.slot(slot), 'made') or ''
  return numbers.above(made, number) and made or number
end

-- Take the word of a node that a slot was made fresh for the end with this number. Returns whether the slot was waiting for that.
function freshness.made(slot, part, number)
  local owed = store.freshens and redis.call('HGET', keys.slot(slot), 'owed')
  if not owed or numbers.above(owed, number) or numbers.above(number, store.token) then return false end
  settle(slot, part, number)
  return true
end

-- Hear a publication of a slot that the store has and that is not lent. `number` is the last end for which the node has made it fresh,
-- `ended` one for which it has not, or the token of a lease that is over; '' for none. A slot that had another policy `before` is to be
-- made fresh once, for its past is not known. Returns whether the slot is to be placed again.
function freshness.hear(slot, part, policy, number, ended, before)
  local owed = store.freshens and redis.call('HGET', keys.slot(slot), 'owed')
  if policy ~= 'fresh' and owed then settle(slot, part, '') return true end
  if policy ~= 'fresh' then return false end
  if freshness.made(slot, part, number) then return true end
  if owed or (before == 'fresh' and not numbers.above(ended, freshness.latest(slot, number))) then return false end
  freshness.owe(slot, part)
  return true
end

-- Hear the first publication of a slot, or one with another item, as above: it is to be made fresh if an end of a lease of it is known
-- for which it was not, or if it had another policy `before`.
function freshness.enter(slot, part, number, ended, before)
  redis.call('HSET', keys.slot(slot), 'made', number)
  local last = redis.call('GET', keys.last_end(slot)) or (store.hearing and redis.call('HGET', keys.ended, slot)) or ''
  redis.call('DEL', keys.last_end(slot))
  local unknown = before and before ~= 'fresh'
  if unknown or numbers.above(last, number) or numbers.above(ended, number) then freshness.owe(slot, part) end
end

-- Remember, when the record of a slot is dropped, whether it is to be made fresh: its node may publish it again. That it is fresh ('')
-- is remembered only while it counts what hubs say of ended leases.
function freshness.drop(slot)
  local policy, place, owed = unpack(redis.call('HMGET', keys.slot(slot), 'policy', 'place', 'owed'))
  if owed then redis.call('ZREM', keys.unfresh, slot) end
  if policy == 'fresh' and place == 'lent' then owed = lease_texts.next_token() end
  if owed or store.hearing then redis.call('SET', keys.last_end(slot), owed or '', 'EX', keys.seconds.last_end) end
end

return freshness
