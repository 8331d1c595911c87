-- Checks and repairs of bundles: leases that were made together, and the bundle for which slots are set aside.
local doctor_bundles = {}

-- Rules in the form of those in doctor_members: whether a member belongs to an index.
doctor_bundles.belongs = {
  bundle = function(id, slot) return bundles.of_slot(slot) == id end,
  bundles = function(_, ticket) return tickets.read(ticket).wish end,
  reserved = function(_, slot)
    return redis.call('HGET', keys.slot(slot), 'place') == 'held' and redis.call('EXISTS', keys.reserver) == 1
  end,
}

-- How a member is taken out of an index where more follows from it. A slot that was set aside is offered again; a task that
-- has lost a slot loses the attempt.
doctor_bundles.take_out = {
  bundle = function(id, slot)
    redis.call('HDEL', keys.bundle(id), slot)
    local live = bundles.live(id)[1]
    local task = live and bundles.task_of(redis.call('HGET', keys.session(live[1]), 'holder'))
    if task then redis.call('RPUSH', keys.slot_losses, task .. '|' .. id .. '|' .. slot) end
  end,
  bundles = function(_, ticket) bundle_line.step_out(ticket) end,
  reserved = function(_, slot)
    redis.call('SREM', keys.reserved, slot)
    placing.offer_again(slot)
  end,
}

-- Return whether the lease of a slot is one of a bundle that lacks it, so that a renewal or a return of the bundle would miss it.
function doctor_bundles.misses(slot, token)
  local id = bundles.of_slot(slot)
  return id and string.match(redis.call('HGET', keys.bundle(id), slot) or '', '^%d+|(.*)$') ~= token
end

-- Return whether slots are set aside for a ticket that does not wait, or without a time, and whether room under caps is kept for other
-- leases than those that it wants.
local function faults()
  local ticket, since_ms, away_ms = unpack(redis.call('HMGET', keys.reserver, 'ticket', 'since_ms', 'away_ms'))
  if redis.call('EXISTS', keys.reserver) == 0 then return false, false end
  if not (since_ms and (away_ms or redis.call('ZSCORE', keys.bundles, ticket or ''))) then return true, false end
  local wish, kept = tickets.read(ticket).wish, {}
  local said = redis.call('HGETALL', keys.reserver)
  for i = 1, #said, 2 do kept[string.match(said[i], '^units:(.*)$') or ''] = tonumber(said[i + 1]) end
  kept[''] = nil
  local wanted, differs = wish and bundle_wishes.counts(wish) or kept, false
  for label, count in pairs(wanted) do differs = differs or kept[label] ~= count end
  for label in pairs(kept) do differs = differs or not wanted[label] end
  return false, differs
end

function doctor_bundles.check_reserver(say)
  local in_vain, differs = faults()
  say('in vain', in_vain)
  say('other room', differs)
end

-- Set slots aside for this bundle no more: the next round chooses one.
function doctor_bundles.repair_reserver()
  local in_vain, differs = faults()
  if in_vain or differs then bundle_line.end_reserve() end
end

-- Check that the store knows whether bundles wait: no call looks at them otherwise, or every call does.
function doctor_bundles.check_store(say)
  local wait = redis.call('EXISTS', keys.bundles, keys.reserver) > 0
  say('bundles forgotten', wait and not store.bundles)
  say('bundles remembered', store.bundles and not wait)
end

function doctor_bundles.repair_store()
  store.bundles = redis.call('EXISTS', keys.bundles, keys.reserver) > 0
  if store.bundles then redis.call('HSET', keys.store, 'bundles', '1') else redis.call('HDEL', keys.store, 'bundles') end
end

return doctor_bundles
