-- Processes of a node: which one is the node now, and whether a call of one comes late.
local node_processes = {}

-- Which process of a node a call comes from: 'own' (or the call does not say, as plain clients do), 'superseded' (another
-- process has registered under this id since, or this one has left), 'unknown' (the store has lost it: it is to register again).
function node_processes.word(part, incarnation, current)
  if incarnation == '' or not current or current == incarnation then return 'own' end
  return redis.call('LPOS', keys.incarnations(part), incarnation) and 'superseded' or 'unknown'
end

-- Remember that an incarnation is over: its calls are late from now on. An hour, and 32 of them, are far more than a call can
-- wait anywhere.
function node_processes.retire(part, incarnation)
  redis.call('LPUSH', keys.incarnations(part), incarnation)
  redis.call('LTRIM', keys.incarnations(part), 0, 31)
  redis.call('EXPIRE', keys.incarnations(part), keys.seconds.incarnations)
end

-- A call of a node about a slot has a number that only rises in its incarnation. A call whose number is not above the last one
-- that was carried out for this slot is late, or a repeat, and changes nothing. Numbers are whole, '' where none counts.
-- Returns the word of `node_processes.word`, and the number if it is of the incarnation that is the node.
function node_processes.caller(part, incarnation, number)
  local current = redis.call('HGET', keys.orders(part), 'incarnation')
  return node_processes.word(part, incarnation, current), incarnation == current and number or ''
end

-- Whether this call, or a later one, has published the slot, or withdrawn it where it has no record. The last 1,000
-- withdrawals of a node count.
function node_processes.told_since(slot, part, published, incarnation, number)
  if number == '' then return false end
  local by, last = string.match(redis.call('HGET', keys.slot(slot), 'told') or '', '^(.*)|(%d+)$')
  if not published then by, last = incarnation, redis.call('ZSCORE', keys.withdrawn(part), slot) end
  return by == incarnation and last and tonumber(number) <= tonumber(last)
end

function node_processes.note_published(slot, part, incarnation, number)
  if number == '' then return end
  redis.call('HSET', keys.slot(slot), 'told', incarnation .. '|' .. number)
  redis.call('ZREM', keys.withdrawn(part), slot)
end

function node_processes.note_withdrawn(slot, part, number)
  if number == '' then return end
  redis.call('ZADD', keys.withdrawn(part), 'GT', number, slot)
  redis.call('ZREMRANGEBYRANK', keys.withdrawn(part), 0, -1001)
end

return node_processes
