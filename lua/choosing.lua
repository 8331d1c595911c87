-- Choosing: a free slot that suits a want, or in which something is warm.
local choosing = {}

-- Take a slot out of the free list of its pool. Returns it as `supply.take` does; nil where it is not there any more, as when another
-- program has taken it, or where its node is suspect. It is in no index of free slots afterwards.
local function take(pool, slot)
  local found, class, warm = supply.record_of(pool, nil, slot, 'class', 'warm')
  local taken = found and free_slots.remove(pool, slot, found.item)
  classes.leave(slot, pool, class, warm)
  if not taken then free_slots.forget_taken(pool) return nil end
  found.class = class
  if not suspects.is_suspect(found.node, found.part, found.reported) then return found end
  suspects.hold_aside(slot, found.part, found.node)
end

choosing.take = take

-- Return the slot of an index that has been free for longest, since when, and whether it is about to be replaced: such a slot comes after
-- all others. The 32 oldest are looked at.
local function oldest(index)
  local first = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
  if not first[1] or redis.call('EXISTS', keys.recycle(first[1])) == 0 then return first[1], tonumber(first[2] or nil), false end
  local some, markers = redis.call('ZRANGE', index, 0, 31, 'WITHSCORES'), {}
  for i = 1, #some, 2 do markers[#markers + 1] = keys.recycle(some[i]) end
  local marked = redis.call('MGET', unpack(markers))
  for i = 1, #markers do
    if not marked[i] then return some[2 * i - 1], tonumber(some[2 * i]), false end
  end
  return first[1], tonumber(first[2]), true
end

-- Take the slot of a pool that has been free for longest of those of some classes; one that is about to be replaced comes last.
function choosing.of_classes(pool, among)
  while call_state.looks > 0 do
    local best, best_since, best_marked, index
    for class, bound in class_heads.of(pool, among) do
      if best and not best_marked and best_since <= bound then break end
      local its_index = keys.free_in(pool .. ' ' .. class)
      local slot, since, marked = oldest(its_index)
      local better = not best or (best_marked and not marked) or (best_marked == marked and since < best_since)
      if slot and better then best, best_since, best_marked, index = slot, since, marked, its_index end
    end
    local found = best and take(pool, best)
    if found or not best then return found end
    redis.call('ZREM', index, best)
    call_state.looks = call_state.looks - 1
  end
end

-- Take a slot of a pool that suits a want ('' for any): the first in which one of the preferred keys is warm, the keys in their order; else
-- the one that has been free for longest. `among` are the classes that suit.
local function find(pool, want, prefer, among)
  if want ~= '' and redis.call('EXISTS', keys.free_classes(pool)) == 0 then return nil end
  if pools.under_maintenance(pool) or served_caps.reached(pool) or teams.is_full(pool) then return nil end
  for key in string.gmatch(prefer, '%S+') do
    for _, slot in ipairs(redis.call('ZRANGE', keys.warm(pool .. ' ' .. key), 0, 127)) do
      local suits = want == '' or wants.suits(want, redis.call('HGET', keys.slot(slot), 'class'))
      local found = suits and redis.call('EXISTS', keys.recycle(slot)) == 0 and take(pool, slot)
      if found then return found end
    end
  end
  if want == '' then return supply.take(pool) end
  return choosing.of_classes(pool, among)
end

-- Return what `matching.find` is to be given for a ticket: a function that takes a slot of a pool as the ticket wants and prefers it, and
-- the classes that suit, nil for any slot.
function choosing.taker(want, prefer)
  if want == '' and prefer == '' then return supply.take, nil end
  local among = want ~= '' and classes.suiting(want) or nil
  return function(pool) return find(pool, want, prefer, among) end, among
end

return choosing
