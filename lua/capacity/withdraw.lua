-- Take a slot off offer because its node says that it is gone; a grant of it ends. Safe to repeat.
-- Returns {'lent'} (only a free one was to go) | {'withdrawn', 1 | 0 (a grant ended)} | {'unknown'} | {'foreign'} (another node's slot)
local slot = ARGV[1]
local node = ARGV[2]
local only_free = ARGV[3]            -- '1': leave it alone when it is lent
-- @include store
-- @include release
-- @include serve
local record = read_slot(slot)
if not record.item then
  redis.call('DEL', key_recycle(slot))
  return {'unknown'}
end
if record.node ~= node then return {'foreign'} end
if only_free == '1' and record.place == 'lent' then return {'lent'} end
redis.call('DEL', key_recycle(slot))
unlist(slot, record.pool, record.item, record.place)
if record.place == 'lent' then
  end_grant(slot, record.label, record.run, record.part)
  note_slot('grant.ended', record, 'withdrawn')
end
drop_slot(slot, record.pool, record.part)
note_slot('slot.withdrawn', record, 'asked')
serve_opened()
return {'withdrawn', record.place == 'lent' and 1 or 0}
