-- Lend at once where nothing stands in the way: no ticket waits, no cap is reached, the request is new. Most borrows need no
-- more than this, and a short command is a fast one: capacity/borrow knows all the rest. Safe to repeat.
-- Returns {'ok', ...} as capacity/borrow does | {'ask', dropped} (nothing was done: ask capacity/borrow)
command.change('capacity/lend_now', {
  'label',
  'ttl_ms',
  'idle_ms',      -- 0: no idle rule
  'run',
  'request',      -- request id
  'attempt',      -- of this very call
  'fingerprint',  -- of what was asked for
  'keep_s',       -- how long the request id is remembered
}, function(a)
  local keyed = a.request ~= a.attempt  -- without a key only a caller that waits has a ticket
  if store.anybody_waits or store.settle_left_ms > 0 or caps.reached(a.label)
    or (keyed and redis.call('EXISTS', keys.ticket(a.request), keys.request(a.request)) > 0) then
    return {'ask', call_state.dropped}
  end
  local found = fast_borrow.find(a.label, a.attempt)
  if not found then return {'ask', call_state.dropped} end
  leases.grant_to(found, a.request, a.label, a.run, a.ttl_ms, a.idle_ms, a.fingerprint, a.attempt, a.keep_s)
  history.note('grant.lent', 'slot', found.slot, 'node', found.node, 'pool', found.pool, 'label', a.label, 'run', a.run,
    'ticket', a.request, 'ttl_ms', a.ttl_ms)
  return {'ok', found.slot, found.token, found.item, found.pool, found.ttl_ms, found.ttl_ms, a.run, call_state.dropped}
end)
