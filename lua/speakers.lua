-- Who speaks for a node, and whether what it says is late.
local speakers = {}

-- Whether a call speaks for a node: 'own' (or it does not say who it is, as plain clients), 'superseded' (another process
-- has registered under this id since, or this one has left), 'unknown' (the store has lost it: it is to register again).
function speakers.word(part, incarnation, current)
  if incarnation == '' or not current or current == incarnation then return 'own' end
  return redis.call('LPOS', keys.incarnations(part), incarnation) and 'superseded' or 'unknown'
end

-- Remember that an incarnation is over: whatever of it still comes is late. An hour, and 32 of them, are far more than a
-- call can wait anywhere.
function speakers.retire(part, incarnation)
  redis.call('LPUSH', keys.incarnations(part), incarnation)
  redis.call('LTRIM', keys.incarnations(part), 0, 31)
  redis.call('EXPIRE', keys.incarnations(part), keys.seconds.incarnations)
end

-- What a node tells of a slot has a number that only rises in its incarnation; a call with one that is not above the last
-- that was carried out for this slot is late, or a repeat, and changes nothing. Numbers are whole, '' where none counts.
-- Returns the word of `speaker`, and the number if it is one of the incarnation that is the node.
function speakers.caller(part, incarnation, number)
  local current = redis.call('HGET', keys.orders(part), 'incarnation')
  return speakers.word(part, incarnation, current), incarnation == current and number or ''
end

-- Whether a slot has been published, or without a record withdrawn, by this very call or a later one. Of the withdrawals
-- of a node the last 1,000 count.
function speakers.told_since(slot, part, published, incarnation, number)
  if number == '' then return false end
  local by, last = string.match(redis.call('HGET', keys.slot(slot), 'told') or '', '^(.*)|(%d+)$')
  if not published then by, last = incarnation, redis.call('ZSCORE', keys.withdrawn(part), slot) end
  return by == incarnation and last and tonumber(number) <= tonumber(last)
end

function speakers.note_published(slot, part, incarnation, number)
  if number == '' then return end
  redis.call('HSET', keys.slot(slot), 'told', incarnation .. '|' .. number)
  redis.call('ZREM', keys.withdrawn(part), slot)
end

function speakers.note_withdrawn(slot, part, number)
  if number == '' then return end
  redis.call('ZADD', keys.withdrawn(part), 'GT', number, slot)
  redis.call('ZREMRANGEBYRANK', keys.withdrawn(part), 0, -1001)
end

return speakers
