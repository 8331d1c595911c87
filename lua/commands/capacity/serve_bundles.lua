-- Do a round of the bundles that wait: choose the one for which slots are set aside, set free slots aside for it, and lend what is
-- complete. End leases that are to end with others of their bundles. Safe to repeat.
-- Returns {'ok', ticket of the reserver or '', slots set aside, 1 | 0 (there are more leases to end)}
command.change('capacity/serve_bundles', {
  'patience_ms: number',  -- how long the oldest waits before slots are set aside for it
  'reserve_ms: number',   -- for how long at most
}, function(a)
  if not store.bundles and redis.call('EXISTS', keys.reserved, keys.torn) == 0 then return {'ok', '', 0, 0} end
  if store.settle_left_ms <= 0 then bundle_rounds.go(a.patience_ms, a.reserve_ms) end
  bundle_ends.offer_unused()
  bundle_ends.end_torn()
  serving.opened()
  return {'ok', redis.call('HGET', keys.reserver, 'ticket') or '', redis.call('SCARD', keys.reserved),
    redis.call('EXISTS', keys.torn)}
end)
