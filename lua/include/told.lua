-- @include speaker
-- What a node tells of a slot has a number that only rises in its incarnation; a call with one that is not above the last
-- that was carried out for this slot is late, or a repeat, and changes nothing. Numbers are whole, '' where none counts.
-- Returns the word of `speaker`, and the number if it is one of the incarnation that is the node.
local function caller(part, incarnation, number)
  local current = redis.call('HGET', key_duty(part), 'incarnation')
  return speaker(part, incarnation, current), incarnation == current and number or ''
end

-- Whether a slot has been published, or without a record withdrawn, by this very call or a later one. Of the withdrawals
-- of a node the last 1,000 count.
local function told_since(slot, part, published, incarnation, number)
  if number == '' then return false end
  local by, last = string.match(redis.call('HGET', key_slot(slot), 'told') or '', '^(.*)|(%d+)$')
  if not published then by, last = incarnation, redis.call('ZSCORE', key_withdrawn(part), slot) end
  return by == incarnation and last and tonumber(number) <= tonumber(last)
end

local function note_published(slot, part, incarnation, number)
  if number == '' then return end
  redis.call('HSET', key_slot(slot), 'told', incarnation .. '|' .. number)
  redis.call('ZREM', key_withdrawn(part), slot)
end
local function note_withdrawn(slot, part, number)
  if number == '' then return end
  redis.call('ZADD', key_withdrawn(part), 'GT', number, slot)
  redis.call('ZREMRANGEBYRANK', key_withdrawn(part), 0, -1001)
end
