-- Tell holders that their leases are about to end by the rules of their pools, and end the leases whose time is over. Safe to repeat: a
-- holder is told of an end once. While the store settles nothing is done.
-- Returns {'ok', number of the last change of the rules,
--   {slot, word, pool, token, grace in ms and bundle that ends with it or '', of each lease that was looked at}}; word:
--   'warned' | 'max-hold' | 'idle' | 'recall' | 'later' | 'none', as of lease_use.look
command.finish('capacity/enforce', {
  'limit: number',  -- most leases in this call
}, function(a)
  local done = {}
  local due = store.settle_left_ms <= 0 and redis.call('ZRANGE', keys.lease_limits, '-inf', store.clock_ms, 'BYSCORE', 'LIMIT', 0, a.limit)
  for _, slot in ipairs(due or {}) do
    local pool, token = redis.call('HGET', keys.slot(slot), 'pool') or '', redis.call('HGET', keys.session(slot), 'leaseToken') or ''
    local bundle = select(2, bundles.tied(redis.call('HGET', keys.session(slot), 'holder'))) or ''
    local word, grace_ms = lease_use.look(slot)
    for _, fact in ipairs({slot, word, pool, token, grace_ms or 0, bundle}) do done[#done + 1] = fact end
  end
  serving.opened()
  return {'ok', store.rules, done}
end)
