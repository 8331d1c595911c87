-- Stop or resume lending a node's slots: free ones are held back, or put back at the tail. Lent ones stay with their
-- borrowers. In bites; safe to repeat.
-- Returns {'ok', cursor of the next bite or '0', slots held of this bite, slots lent of it} | {'unknown'}
local id    = ARGV[1]
local part  = ARGV[2]
local on    = ARGV[3]                -- '1' drain, '0' undrain
local cursor = ARGV[4]               -- '0' to begin with
local limit = ARGV[5]                -- slots per bite, about
-- @include place_free
-- @include drop_slot
if redis.call('SISMEMBER', key_nodes, id) == 0 then return {'unknown'} end
if on == '1' then
  redis.call('SADD', key_draining, id)
  if redis.call('HSETNX', key_duty(part), 'drain', '1') == 1 then redis.call('HINCRBY', key_duty(part), 'version', 1) end
else
  redis.call('SREM', key_draining, id)
  if redis.call('HDEL', key_duty(part), 'drain') == 1 then redis.call('HINCRBY', key_duty(part), 'version', 1) end
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
return {'ok', page[1], held, lent}
