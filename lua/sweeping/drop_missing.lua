-- Forget slots whose item another program has taken out of its list. A lent one with a session is left to its lease.
-- A node that beats through a hub is told to publish again: it may still have them.
-- Returns {'ok', dropped}
-- @rest slots
-- @include drop_slot
-- @include history
local dropped = 0
for i = 1, #ARGV do
  local slot = ARGV[i]
  local record = redis.call('HMGET', key_slot(slot), 'item', 'pool', 'place', 'part', 'node')
  local list = record[3] == 'free' and key_available(record[2] or '') or key_inuse(record[2] or '')
  if record[1] and record[3] ~= 'held' and not redis.call('LPOS', list, record[1])
    and (record[3] == 'free' or redis.call('EXISTS', key_session(slot)) == 0) then
    drop_slot(slot, record[2], record[4])
    note_slot('slot.withdrawn', {slot = slot, node = record[5], pool = record[2]}, 'missing')
    if redis.call('EXISTS', key_node(record[4])) == 1 then redis.call('HSET', key_duty(record[4]), 'republish', '1') end
    dropped = dropped + 1
  end
end
return {'ok', dropped}
