-- Take from a hub, after the store was lost, which leases and bundles ended shortly before, in case their nodes or hubs do not know: they
-- end now if they were brought back. Where an operator ended a lease, its slot is held back for what is left of the grace of its holder.
-- Safe to repeat. Returns {'ok'}
command.finish('capacity/note_ended', {
  '...ended',  -- per lease: slot, token, hub clock at which the grace of its holder ends or '0'; per bundle: its id, '', '0'
}, function(_, argv)
  for i = 1, #argv, 3 do
    local slot, token, until_ms = argv[i], argv[i + 1], tonumber(argv[i + 2])
    if token == '' then
      redis.call('RPUSH', keys.torn, slot)
      call_state.torn = true
    else endings.note_ended(slot, token) end
    local held = redis.call('HGET', keys.session(slot), 'leaseToken') or ''
    if not (held ~= '' and numbers.above(held, token)) then
      local record = slots.read(slot)
      local unfresh = record.item and record.place ~= 'lent' and freshness.hear(slot, record.part, record.policy, '', token, record.policy)
      if until_ms > store.clock_ms then revocations.keep(slot, token, until_ms) end
      if record.place == 'free' and (unfresh or until_ms > store.clock_ms) then
        slots.unlist(record.pool, record.item, 'free')
        redis.call('HSET', keys.slot(slot), 'place', 'held')
      end
      if held ~= '' and record.place == 'lent' then releases.release(slot, record, '120', 'grant.returned', '') end
    end
  end
  serving.opened()
  return {'ok'}
end)
