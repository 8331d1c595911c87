-- Offer slots again whose leases ended early, when the grace of their last holders is over. Safe to repeat. Returns {'ok', slots whose
-- grace was over}
command.change('capacity/relend', {
  'limit: number',  -- most slots in this call
}, function(a)
  local over = redis.call('ZRANGE', keys.revoked, '-inf', store.clock_ms, 'BYSCORE', 'LIMIT', 0, a.limit)
  for _, slot in ipairs(over) do
    revocations.forget(slot)
    placing.offer_again(slot)
  end
  serving.opened()
  return {'ok', #over}
end)
