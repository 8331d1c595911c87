-- Take a slot off offer because its node says that it is gone; a grant of it ends. Safe to repeat.
-- A process that is not the node any more, and a call that is older than one for this slot that was carried out, change
-- nothing. Returns {'lent'} (only a free one was to go) | {'withdrawn', 1 | 0 (a grant ended)} | {'unknown'}
--   | {'foreign'} (another node's slot) | {'late'} (it was published since) | {'superseded'} | {'unregistered'}
local slot = ARGV[1]
local node = ARGV[2]
local part = ARGV[3]                 -- the node's id as part of a key
local only_free = ARGV[4]            -- '1': leave it alone when it is lent
local incarnation = ARGV[5]          -- '' of plain clients
local said_number = ARGV[6]               -- of this call, which only rises in an incarnation; '' of plain clients
-- @include store
-- @include release
-- @include serve
-- @include told
local says, number = caller(part, incarnation, said_number)
if says ~= 'own' then return {says == 'unknown' and 'unregistered' or says} end
local record = read_slot(slot)
if not record.item then
  note_withdrawn(slot, part, number)
  redis.call('DEL', key_recycle(slot))
  return {'unknown'}
end
if record.node ~= node then return {'foreign'} end
if told_since(slot, part, true, incarnation, number) then return {'late'} end
if only_free == '1' and record.place == 'lent' then return {'lent'} end
redis.call('DEL', key_recycle(slot))
unlist(slot, record.pool, record.item, record.place)
if record.place == 'lent' then
  revoke(slot, grace_of_hubs())
  end_grant(slot, record.label, record.run, record.part)
  note_slot('grant.ended', record, 'withdrawn')
end
drop_slot(slot, record.pool, record.part)
note_withdrawn(slot, part, number)
note_slot('slot.withdrawn', record, 'asked')
serve_opened()
return {'withdrawn', record.place == 'lent' and 1 or 0}
