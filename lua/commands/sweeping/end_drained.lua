-- End the leases of a node whose drain deadline has passed on the hub clock; its slots are held back. In batches; safe to repeat. A
-- node that was undrained or given more time meanwhile is left alone.
-- Returns {'more' | 'done', cursor of the next batch, {slot whose lease ended, ...}} | {'nothing'} (no deadline of it has passed)
command.finish('sweeping/end_drained', {
  'id',             -- raw id of the node
  'part',           -- key part of the id of the node
  'cursor',         -- '0' in the first batch
  'limit: number',  -- most leases ended per batch
}, function(a)
  local due = redis.call('ZSCORE', keys.drain_deadlines, a.id)
  if not due then return {'nothing'} end
  if redis.call('SISMEMBER', keys.nodes, a.id) == 0 or redis.call('HEXISTS', keys.orders(a.part), 'drain') == 0 then
    redis.call('ZREM', keys.drain_deadlines, a.id)
    return {'nothing'}
  end
  if tonumber(due) > store.clock_ms then return {'nothing'} end
  local ended = {}
  local page = redis.call('SSCAN', keys.node_slots(a.part), a.cursor, 'COUNT', a.limit)
  local after, whole = page[1], true
  for _, slot in ipairs(page[2]) do
    if redis.call('HGET', keys.slot(slot), 'place') == 'lent' then
      if #ended == a.limit then  -- a small set comes in one page: read this page again
        after, whole = a.cursor, false
        break
      end
      revocations.revoke(slot, revocations.grace_ms(), 'deadline')
      releases.release(slot, slots.read(slot), '120', 'grant.ended', 'deadline')
      ended[#ended + 1] = slot
    end
  end
  serving.opened()
  if whole and after == '0' then
    redis.call('ZREM', keys.drain_deadlines, a.id)
    return {'done', after, ended}
  end
  return {'more', after, ended}
end)
