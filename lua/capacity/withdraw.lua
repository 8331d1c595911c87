-- Take a slot off offer because its node says that it is gone; a grant of it ends. Safe to repeat.
-- Returns {'withdrawn', 1 | 0 (a grant ended)} | {'unknown'} | {'foreign'} (another node's slot)
local slot = ARGV[1]
local part = ARGV[2]
-- @include store
-- @include release
local record = read_slot(slot)
redis.call('DEL', key_recycle(slot))
if not record.item then return {'unknown'} end
if record.part ~= part then return {'foreign'} end
unlist(slot, record.pool, record.item, record.place)
if record.place == 'lent' then end_grant(slot, record.label, record.run, part) end
drop_slot(slot, record.pool, part)
return {'withdrawn', record.place == 'lent' and 1 or 0}
