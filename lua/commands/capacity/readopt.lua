-- After the store came back empty or older: a hub says what it lent a moment ago, so that it is not lent again.
-- Safe to repeat, and too late when nodes have had their time to report. A grant the store knows, or a later one of the
-- same slot, is left alone, and so is one that has ended since.
-- Returns {'adopted' | 'kept'}
command.change('capacity/readopt', {
  'slot',
  'pool',
  'item',
  'node',
  'part',
  'label',
  'run',
  'token',
  'ttl_ms: number',
}, function(a)
  local record = slots.read(a.slot)
  -- It was delivered, whatever the store remembers of that.
  if redis.call('HGET', keys.session(a.slot), 'leaseToken') == a.token then redis.call('HDEL', keys.slot(a.slot), 'unseen') end
  if not reports.is_live(a.slot, a.token) then return {'kept'} end
  if record.place == 'lent' then
    if not numbers.above(a.token, redis.call('HGET', keys.session(a.slot), 'leaseToken') or a.token) then return {'kept'} end
    endings.finish(a.slot, record.label, record.run, record.part)  -- it had ended in what was lost
  end
  if record.item then
    slots.unlist(record.pool, record.item, record.place)
    redis.call('HDEL', keys.slot(a.slot), 'unseen', 'before')
  else
    slots.create(a.slot, a.item, a.pool, a.node, a.part, '', 'recycle')
    redis.call('HSET', keys.slot(a.slot), 'unreported', '1')
  end
  leases.lend({slot = a.slot, item = record.item or a.item, pool = record.pool or a.pool, node = a.node, part = a.part, label = a.label,
    run = a.run, token = a.token, ttl_ms = reports.as_renewed(a.slot, a.token, a.ttl_ms), idle_ms = 0})
  history.slot('grant.adopted', {slot = a.slot, node = a.node, pool = record.pool or a.pool, label = a.label, run = a.run}, 'recalled')
  return {'adopted'}
end)
