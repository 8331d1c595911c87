-- Take a slot off offer because its node says that it is gone; its lease ends. Safe to repeat. A process that is not the node any more
-- changes nothing, nor does a call that is older than the last one for the slot.
-- Returns {'withdrawn', 1 | 0 (whether a lease ended)} | {'lent'} (left alone, for `only_free`) | {'unknown'} (no such slot)
--   | {'foreign'} (the slot of another node) | {'late'} (it was published since) | {'superseded'} (another process is the node) |
--   {'unregistered'} (the node has to register again)
command.finish('capacity/withdraw', {
  'slot',
  'node',         -- raw id of the node
  'part',         -- key part of the id of the node
  'only_free',    -- '1': leave the slot alone when it is lent
  'incarnation',  -- of the calling process, '' of plain clients
  'said_number',  -- number of the call, which only rises in an incarnation; '' of plain clients
  'reason',       -- why, for the holder of a lease that ends by this; '' for no words
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
    revocations.revoke(a.slot, revocations.grace_ms(), 'withdrawn', a.reason)
    endings.end_lease(record)
    history.slot('grant.ended', record, 'withdrawn')
  end
  slots.drop(a.slot, record.pool, record.part)
  if store.holds then kept_holds.forget(a.slot) end
  redis.call('SET', keys.last_end(a.slot), '', 'XX', 'KEEPTTL')  -- what its node publishes under this id is another slot
  node_processes.note_withdrawn(a.slot, a.part, number)
  history.slot('slot.withdrawn', record, 'asked')
  serving.opened()
  return {'withdrawn', record.place == 'lent' and 1 or 0}
end)
