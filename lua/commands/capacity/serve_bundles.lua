-- Do a round of the bundles that wait: choose the one for which slots are set aside, set free slots aside for it, and lend what is
-- complete. Safe to repeat. Returns {'ok', ticket of the reserver or '', slots set aside}
command.change('capacity/serve_bundles', {
  'patience_ms: number',  -- how long the oldest waits before slots are set aside for it
  'reserve_ms: number',   -- for how long at most
}, function(a)
  if not store.bundles and redis.call('EXISTS', keys.reserved) == 0 then return {'ok', '', 0} end
  if store.settle_left_ms <= 0 then bundle_rounds.go(a.patience_ms, a.reserve_ms) end
  bundle_ends.end_reserve()
  serving.opened()
  return {'ok', redis.call('HGET', keys.reserver, 'ticket') or '', redis.call('SCARD', keys.reserved)}
end)
