-- Lend a slot at once where no ticket waits, no cap is reached and the request is new. Most borrows need no more than this, and a short
-- command is fast; capacity/borrow handles all other cases. Safe to repeat.
-- Returns {'ok', ...} as capacity/borrow does | {'ask', dropped} (nothing was lent: call capacity/borrow)
command.change('capacity/lend_now', {
  'label',
  'ttl_ms',       -- how long the lease lasts; negative: unless the rule of its pool says otherwise
  'idle_ms',      -- idle ms after which the lease ends, 0 for no such rule
  'run',          -- the run of the borrower, '' for none
  'holder',       -- JSON of the borrower, as lua/holders.lua says
  'request',      -- request id, and id of the ticket
  'attempt',      -- id of this call
  'fingerprint',  -- digest of what was asked for
  'keep_s',       -- for how many seconds the answer to the request is kept
}, function(a)
  local keyed = a.request ~= a.attempt  -- without a key only a caller that waits has a ticket
  if store.anybody_waits or store.settle_left_ms > 0 or caps.reached(a.label)
    or (keyed and redis.call('EXISTS', keys.ticket(a.request), keys.request(a.request)) > 0) then
    return {'ask', call_state.dropped}
  end
  if store.teams ~= '' then call_state.team = holders.of(a.holder).team end
  local found = fast_borrow.find(a.label, a.attempt)
  if not found then return {'ask', call_state.dropped} end
  leases.grant_to(found, a.request, a.label, a.run, a.holder, a.ttl_ms, a.idle_ms, a.fingerprint, a.attempt, a.keep_s)
  history.granted('grant.lent', found, a.request, a)
  return {'ok', found.slot, found.token, found.item, found.pool, found.ttl_ms, found.ttl_ms, a.run, call_state.dropped, a.holder,
    a.label, found.class or ''}
end)
