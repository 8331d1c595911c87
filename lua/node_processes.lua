-- Processes of a node: which process is the node now, and whether a call of a process comes late.
local node_processes = {}

-- Return the word for the process that a call of a node names by its incarnation: 'own' (it is the node now; also when the call names
-- none, like those of plain clients), 'superseded' (another process has registered under this id since, or this process has left),
-- 'unknown' (the store has lost it: it has to register again).
function node_processes.word(part, incarnation, current)
  if incarnation == '' or not current or current == incarnation then return 'own' end
  return redis.call('LPOS', keys.incarnations(part), incarnation) and 'superseded' or 'unknown'
end

-- Remember that an incarnation is over: its calls are late from now on. They are remembered for an hour and 32 at most, which is far
-- more than a call can wait on its way.
function node_processes.retire(part, incarnation)
  redis.call('LPUSH', keys.incarnations(part), incarnation)
  redis.call('LTRIM', keys.incarnations(part), 0, 31)
  redis.call('EXPIRE', keys.incarnations(part), keys.seconds.incarnations)
end

-- Return the word of `node_processes.word` for a call about slots, and the number of the call where it counts, else ''. The number only
-- rises in an incarnation, and counts where the incarnation is the node now: a call whose number is not above the last one that was
-- carried out for the slot is late or a repeat, and changes nothing.
function node_processes.caller(part, incarnation, number)
  local current = redis.call('HGET', keys.orders(part), 'incarnation')
  return node_processes.word(part, incarnation, current), incarnation == current and number or ''
end

-- Return whether this call or a later one has published the slot already; or, where the slot has no record (`published` is false), has
-- withdrawn it. Of each node the last 1,000 withdrawals are kept.
function node_processes.told_since(slot, part, published, incarnation, number)
  if number == '' then return false end
  local by, last = string.match(redis.call('HGET', keys.slot(slot), 'told') or '', '^(.*)|(%d+)$')
  if not published then by, last = incarnation, redis.call('ZSCORE', keys.withdrawn(part), slot) end
  return by == incarnation and last and tonumber(number) <= tonumber(last)
end

-- Note the call that published a slot: {incarnation, number, says}; it `says` '1' also whether the node holds the slot.
function node_processes.note_published(slot, part, said)
  if said.number == '' then return end
  local by = said.incarnation .. '|' .. said.number
  redis.call('HSET', keys.slot(slot), 'told', by)
  if said.says == '1' and not holds.is_late(redis.call('HGET', keys.slot(slot), 'hold_told'), said.incarnation, said.number) then
    redis.call('HSET', keys.slot(slot), 'hold_told', by)
  end
  redis.call('ZREM', keys.withdrawn(part), slot)
end

-- Note the number of the call that withdrew a slot.
function node_processes.note_withdrawn(slot, part, number)
  if number == '' then return end
  redis.call('ZADD', keys.withdrawn(part), 'GT', number, slot)
  redis.call('ZREMRANGEBYRANK', keys.withdrawn(part), 0, -1001)
end

return node_processes
