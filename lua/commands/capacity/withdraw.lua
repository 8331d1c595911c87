-- Take a slot off offer because its node says that it is gone; a lease of it ends. Safe to repeat.
-- A process that is not the node any more, and a call that is older than one for this slot that was carried out, change
-- nothing. Returns {'lent'} (only a free one was to go) | {'withdrawn', 1 | 0 (a lease ended)} | {'unknown'}
--   | {'foreign'} (another node's slot) | {'late'} (it was published since) | {'superseded'} | {'unregistered'}
command.finish('capacity/withdraw', {
  'slot',
  'node',
  'part',         -- the node's id as part of a key
  'only_free',    -- '1': leave it alone when it is lent
  'incarnation',  -- '' of plain clients
  'said_number',  -- of this call, which only rises in an incarnation; '' of plain clients
}, function(a)
  local says, number = node_processes.caller(a.part, a.incarnation, a.said_number)
  if says ~= 'own' then return {says == 'unknown' and 'unregistered' or says} end
  local record = slots.read(a.slot)
  if not record.item then
    node_processes.note_withdrawn(a.slot, a.part, number)
    redis.call('DEL', keys.recycle(a.slot))
    return {'unknown'}
  end
  if record.node ~= a.node then return {'foreign'} end
  if node_processes.told_since(a.slot, a.part, true, a.incarnation, number) then return {'late'} end
  if a.only_free == '1' and record.place == 'lent' then return {'lent'} end
  redis.call('DEL', keys.recycle(a.slot))
  slots.unlist(record.pool, record.item, record.place)
  if record.place == 'lent' then
    revocations.revoke(a.slot, revocations.grace_ms())
    endings.finish(a.slot, record.label, record.run, record.part)
    history.slot('grant.ended', record, 'withdrawn')
  end
  slots.drop(a.slot, record.pool, record.part)
  node_processes.note_withdrawn(a.slot, a.part, number)
  history.slot('slot.withdrawn', record, 'asked')
  serving.opened()
  return {'withdrawn', record.place == 'lent' and 1 or 0}
end)
