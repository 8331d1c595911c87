-- Take a slot off offer whose node is not on the books: nobody would notice its death. Safe to repeat. Returns {'ok'}
local slot    = ARGV[1]
local node_ms = tonumber(ARGV[2])     -- as for look_slots
-- @include release
-- @include unknown_node
local record = read_slot(slot)
record.adopted_ms = redis.call('HGET', key_slot(slot), 'adopted_ms')
if not record.item or record.place == 'lent' or not unknown_node(record, node_ms) then return {'ok'} end
unlist(slot, record.pool, record.item, record.place)
drop_slot(slot, record.pool, record.part)
note_slot('slot.withdrawn', record, 'unknown')
return {'ok'}
