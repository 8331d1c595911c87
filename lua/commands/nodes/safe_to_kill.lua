-- Read whether a node can be shut down without harm to a lease: it drains, so that none of its slots can be lent, and none is lent. Up
-- to about `limit` slots are looked at in one call. For a node with more the batches are as good as one look while the number of the
-- drain stays the same: held slots stay held. Changes nothing.
-- Returns {'ok', number of its drain or '', ms to the deadline or -1, leases, slots on offer in this batch, cursor of the next batch,
--   '0' after the last}
--   | {'unknown'} (not registered, and no slot or lease of it is known)
--   | {'settling', ms} (the same, but the store was lost, and for so long the node may come back with its leases)
command.read('nodes/safe_to_kill', {
  'id',                  -- raw id of the node
  'part',                -- key part of the id of the node
  'timeout_ms: number',  -- timeout of nodes
  'cursor',              -- '0' in the first batch
  'limit',               -- slots that are looked at, about
}, function(a)
  local lent, offered, after = redis.call('HLEN', keys.lent(a.part)), 0, '0'
  local drain = redis.call('HGET', keys.orders(a.part), 'drain') or ''
  if redis.call('SISMEMBER', keys.nodes, a.id) == 0 and redis.call('EXISTS', keys.lent(a.part), keys.node_slots(a.part)) == 0 then
    local left_ms = store.settle_ms and store.settle_left_ms + a.timeout_ms or 0
    if left_ms > 0 then return {'settling', math.ceil(left_ms)} end
    return {'unknown'}
  end
  if drain ~= '' and lent == 0 then
    local page = redis.call('SSCAN', keys.node_slots(a.part), a.cursor, 'COUNT', a.limit)
    after = page[1]
    for _, slot in ipairs(page[2]) do
      local place = redis.call('HGET', keys.slot(slot), 'place')
      lent = lent + (place == 'lent' and 1 or 0)  -- another program lent it, without a session
      offered = offered + (place == 'free' and 1 or 0)
    end
  end
  return {'ok', drain, drains.left_ms(a.id), lent, offered, after}
end)
