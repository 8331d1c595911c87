-- Take a slot off offer whose node is not on the books: nobody would notice its death. Safe to repeat. Returns {'ok'}
command.change('doctor/repair_unmanaged', {
  'slot',
  'node_ms: number',  -- as for look_slots
}, function(a)
  local record = slots.read(a.slot)
  record.adopted_ms = redis.call('HGET', keys.slot(a.slot), 'adopted_ms')
  if not record.item or record.place == 'lent' or not nodes.is_unknown(record, a.node_ms) then return {'ok'} end
  slots.unlist(record.pool, record.item, record.place)
  slots.drop(a.slot, record.pool, record.part)
  history.slot('slot.withdrawn', record, 'unknown')
  return {'ok'}
end)
