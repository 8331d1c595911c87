-- Stop or resume lending a node's slots: free ones are held back, or go on to whoever is next. Lent ones stay with
-- their borrowers until the deadline, if there is one, which the sweeper carries out (sweeping/end_drained). The last
-- call decides, about the deadline as well. In bites, of which the first switches; safe to repeat.
-- Each call has a number that only rises, also after the store was lost: one that is brought back, by the hub that made it
-- or by the node that was told of it, changes nothing when an equal or later one is known, and waits for a node that is
-- not back yet.
-- Returns {'ok', cursor of the next bite or '0', slots held of this bite, slots lent of it, ms to the deadline or -1,
--   number of the call} | {'unknown'} | {'kept'}
local id          = ARGV[1]
local part        = ARGV[2]
local on          = ARGV[3]          -- '1' drain, '0' undrain
local deadline_ms = ARGV[4]          -- from now, '' for none
local cursor      = ARGV[5]          -- '0' to begin with
local limit       = ARGV[6]          -- slots per bite, about
local number      = ARGV[7]          -- of a call that is brought back; '' for one that is made now
-- @include store
-- @include above
-- @include lend
-- @include place_free
-- @include drop_slot
-- @include serve
if redis.call('SISMEMBER', key_nodes, id) == 0 then
  if number ~= '' and above(number, redis.call('HGET', key_drain_call(part), 'number') or '') then
    redis.call('HSET', key_drain_call(part), 'on', on, 'number', number, 'left_ms', deadline_ms)
    redis.call('EXPIRE', key_drain_call(part), 600)
  end
  return {'unknown'}
end
if cursor == '0' then
  if number ~= '' and not above(number, redis.call('HGET', key_duty(part), 'drain_number') or '') then return {'kept'} end
  if number == '' then number = next_token() end
  redis.call('HSET', key_duty(part), 'drain_number', number)
  redis.call('HINCRBY', key_duty(part), 'version', 1)  -- the node is told the number with its next beat
end
local drains = redis.call('HEXISTS', key_duty(part), 'drain') == 1
if cursor == '0' and on == '1' then
  redis.call('SADD', key_draining, id)
  if deadline_ms ~= '' then
    redis.call('ZADD', key_drain_deadlines, clock_ms + tonumber(deadline_ms), id)
  else
    redis.call('ZREM', key_drain_deadlines, id)
  end
  if not drains then  -- the number tells this drain from a later one
    redis.call('HSET', key_duty(part), 'drain', redis.call('HINCRBY', key_duty(part), 'version', 1))
    note('node.draining', 'node', id, 'deadline_ms', deadline_ms)
  end
elseif cursor == '0' then
  redis.call('SREM', key_draining, id)
  redis.call('ZREM', key_drain_deadlines, id)
  if drains then
    redis.call('HDEL', key_duty(part), 'drain')
    note('node.undrained', 'node', id)
    redis.call('HINCRBY', key_duty(part), 'version', 1)
  end
elseif drains ~= (on == '1') then
  return {'ok', '0', 0, 0, -1, number}  -- somebody has switched it back since the first bite
end
local held, lent = 0, 0
local page = redis.call('SSCAN', key_node_slots(part), cursor, 'COUNT', limit)
for _, slot in ipairs(page[2]) do
  local record = redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place')
  local place = record[3]
  if on == '1' and place == 'free' then
    unlist(slot, record[2], record[1], 'free')
    redis.call('HSET', key_slot(slot), 'place', 'held')
    place = 'held'
  elseif on == '0' and place == 'held' then
    place = place_free(slot, part, record[2], record[1])
  end
  held = held + (place == 'held' and 1 or 0)
  lent = lent + (place == 'lent' and 1 or 0)
end
serve_opened()
local due = redis.call('ZSCORE', key_drain_deadlines, id)
return {'ok', page[1], held, lent, due and math.max(0, math.floor(tonumber(due) - clock_ms)) or -1, number}
