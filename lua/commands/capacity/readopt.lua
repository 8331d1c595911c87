-- Take from a hub, after the store came back empty or older, a lease that it made shortly before, so that the slot is not lent again.
-- Safe to repeat. It changes nothing after the nodes have had their time to report, nor for a lease that the store knows or that has
-- ended since, nor for a slot with a later lease.
-- Returns {'adopted'} (it is a lease now) | {'kept'} (nothing was lent)
--
-- Give a lease that its node has reported without label, run and holder, as plain clients do, those that the hub remembers.
local function name(a, record)
  endings.uncount(a.slot, record.label)
  team_shares.uncount(a.slot)
  redis.call('HSET', keys.session(a.slot), 'labelKey', a.label, 'runId', a.run, 'holder', a.holder)
  redis.call('HSET', keys.slot(a.slot), 'label', a.label, 'run', a.run, 'holder', a.holder)
  holders.note(a.slot, a.holder)
  bundles.note(a.slot, a.token, a.holder)
  team_shares.count(a.slot, record.pool, a.holder)
  redis.call('ZADD', keys.in_flight(a.label), numbers.whole(store.now_ms), a.slot)
  if a.run ~= '' then leases.note_run(a.slot, a.run) end
end

command.finish('capacity/readopt', {
  'slot',
  'pool',
  'item',
  'node',
  'part',            -- key part of the id of the node
  'label',
  'run',
  'holder',          -- JSON of its holder, as lua/holders.lua says
  'token',
  'ttl_ms: number',  -- how long the lease lasts from now
}, function(a)
  local record = slots.read(a.slot)
  -- The caller holds the lease, although the store may have lost its record of that.
  if redis.call('HGET', keys.session(a.slot), 'leaseToken') == a.token then redis.call('HDEL', keys.slot(a.slot), 'unseen') end
  if not reports.is_live(a.slot, a.token, a.holder) then return {'kept'} end
  if record.place == 'lent' then
    local known = redis.call('HGET', keys.session(a.slot), 'leaseToken') or a.token
    if known == a.token and record.label == record.pool and record.run == '' then name(a, record) end
    if not numbers.above(a.token, known) then return {'kept'} end
    endings.end_lease(record, true)  -- the lease that the store knows had ended in what was lost
  end
  holders.forget(a.slot)
  if record.item then
    slots.unlist(record.pool, record.item, record.place)
    redis.call('HDEL', keys.slot(a.slot), 'unseen', 'before')
  else
    slots.create(a.slot, a.item, a.pool, a.node, a.part, '', 'recycle')
    redis.call('HSET', keys.slot(a.slot), 'unreported', '1')
  end
  leases.lend({slot = a.slot, item = record.item or a.item, pool = record.pool or a.pool, node = a.node, part = a.part, label = a.label,
    run = a.run, holder = a.holder, token = a.token, ttl_ms = reports.as_renewed(a.slot, a.token, a.ttl_ms), idle_ms = 0})
  history.slot('grant.adopted', {slot = a.slot, node = a.node, pool = record.pool or a.pool, label = a.label, run = a.run,
    holder = a.holder}, 'recalled')
  return {'adopted'}
end)
