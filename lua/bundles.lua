-- Bundles: leases that were made together. The holder of each says so: `bundle` (an id), `unit` (its number in the bundle), and `together`
-- where the end of one ends the others; so nodes and hubs bring bundles back with their leases after a loss.
local bundles = {}

-- Return the id of the bundle whose first lease has this token.
function bundles.id_of(token) return 'b' .. token end

-- Return the holder, a JSON text, of a lease of a bundle.
function bundles.holder_of(holder, id, unit, together)
  local head = holder == '' and '{' or string.sub(holder, 1, -2) .. ','
  return head .. '"bundle":"' .. id .. '","unit":' .. unit .. (together and ',"together":true}' or '}')
end

-- Return the id of a bundle, the number of the lease in it, whether the end of one ends the others, and the task to which it belongs, if
-- any; nil for a lease alone.
local function of(holder)
  if not holder or not string.find(holder, '"bundle":', 1, true) then return nil end
  local good, said = pcall(cjson.decode, holder)
  if not good or type(said) ~= 'table' or type(said.bundle) ~= 'string' then return nil end
  return said.bundle, tonumber(said.unit) or 0, said.together == true, type(said.task) == 'string' and said.task or nil
end

-- Note a lease that is made now in the record of its bundle.
function bundles.note(slot, token, holder)
  local id, unit = of(holder)
  if id then redis.call('HSET', keys.bundle(id), slot, numbers.whole(unit) .. '|' .. token) end
end

-- Note that a lease has ended, by its holder or not. record: as of slots.read. `serving.opened` ends some that are to end with it, rounds
-- the others, and fail the task that has lost a slot.
function bundles.leave(record, by_holder)
  local id, _, together, task = of(record.holder)
  if not id then return end
  redis.call('HDEL', keys.bundle(id), record.slot)
  if task and not call_state.task_ends then redis.call('RPUSH', keys.slot_losses, task .. '|' .. id .. '|' .. record.slot) end
  if by_holder or not together or redis.call('EXISTS', keys.bundle(id)) == 0 then return end
  if not redis.call('LPOS', keys.torn, id) then redis.call('RPUSH', keys.torn, id) end
  call_state.torn = true
end

-- Note, after a loss, that a bundle has ended: leases of it that are reported later are believed no more.
function bundles.note_ended(id)
  if store.hearing then redis.call('HSET', keys.ended, id, '1') end
end

-- Return the live leases of a bundle in their order: {{slot, token}, ...}.
function bundles.live(id)
  local found, said = {}, redis.call('HGETALL', keys.bundle(id))
  for i = 1, #said, 2 do
    local unit, token = string.match(said[i + 1], '^(%d+)|(.*)$')
    if token and redis.call('HGET', keys.session(said[i]), 'leaseToken') == token then
      found[#found + 1] = {said[i], token, tonumber(unit)}
    end
  end
  table.sort(found, function(a, b) return a[3] < b[3] or (a[3] == b[3] and numbers.below(a[1], b[1])) end)
  return found
end

-- Return the slots whose leases end with a lease of this holder, and the bundle; {} for a lease alone, and where the others go on.
function bundles.tied(holder)
  local id, _, together = of(holder)
  local found = {}
  for _, each in ipairs(id and together and bundles.live(id) or {}) do found[#found + 1] = each[1] end
  return found, together and id or nil
end

-- Return the task to which a lease of this holder belongs; nil for none.
function bundles.task_of(holder) return (select(4, of(holder))) end

-- Return the bundle of the lease of a slot; nil for a lease alone.
function bundles.of_slot(slot) return (of(redis.call('HGET', keys.session(slot), 'holder'))) end

-- Return whether a hub has yet to hear of a lease of a bundle.
function bundles.is_unseen(id, hub)
  for _, each in ipairs(bundles.live(id)) do
    if redis.call('HGET', keys.slot(each[1]), 'unseen') == hub then return true end
  end
end

return bundles
