-- Lend several slots at once, all or none; where they are not there, enter the line of bundles. The request id is the id of the ticket.
-- Safe to repeat: a repeat gets the same place or the same leases, and looks again whether the bundle can be served.
-- Returns {'ok', bundle, {lease, ...}, dropped} (a lease: slot, token, item, pool, ms until it lapses, ms it lasts, run, holder, label that
--   it is served under, class of the slot or ''; in the order of the parts)
--   | {'waiting', position in the line, -1, dropped} (dropped: items that cannot be lent)
--   | {'unpublished', number of the part of which fewer slots are published than are wanted, or 0: no node has all, how many there are}
--   | {'empty', dropped} | {'capped', cap, its label} | {'settling', ms left} (for a call that waits less)
--   | {'per-label-cap', waiters} | {'per-run-cap', waiters} (it may not enter the line)
--   | {'over', slot} (none of its leases is live) | {'undone'} (withdrawn) | {'reused'} (the request id came with another call before)
command.change('capacity/borrow_all', {
  'bundle',            -- JSON, as lua/bundle_wishes.lua reads it
  'ttl_ms',            -- how long a lease lasts; negative: unless the rule of its pool says otherwise
  'idle_ms',           -- idle ms after which a lease ends, 0 for no such rule
  'run',               -- the run of the borrower, '' for none
  'holder',            -- JSON of the borrower, as lua/holders.lua says
  'request',           -- request id, and id of the ticket
  'attempt',           -- id of this call: a request may be repeated, at other hubs too
  'fingerprint',       -- digest of what was asked for
  'keep_s',            -- for how many seconds the answer to the request is kept
  'keyed',             -- '1': the caller named the request id (an idempotency key) and may repeat the call
  'repeated',          -- '1': this call has asked before and waits on
  'hub',               -- the hub that answers the caller
  'wait_ms: number',   -- how long this call may wait, 0: not at all
  'limit_ms: number',  -- how long the caller waits in all; -1: not known
  'priority: number',  -- a point counts as a second in the line
  'max_label: number', -- most bundles that wait
  'max_run: number',   -- most waiters of a run
  'hopes',             -- '1': it waits also for slots that are not published
}, function(a)
  local before, withdrawn = unpack(redis.call('MGET', keys.request(a.request), keys.request(a.attempt)))
  if withdrawn == 'undone' or before == 'undone' then return {'undone'} end
  if before then return bundle_queue.granted(before, a.request, a.attempt, a.fingerprint, a.hub) end
  local known = tickets.read(a.request)
  if known.label then
    if known.fingerprint ~= a.fingerprint then return {'reused'} end
    local waits = redis.call('ZSCORE', keys.bundles, a.request)
    if waits and a.wait_ms == 0 then return {'empty', call_state.dropped} end
    local later = waits and a.repeated == '1' and known.attempt ~= a.attempt and hubs.is_heard(known.hub)
    if not later then queue.attend(known, a.hub, a.attempt, store.clock_ms + a.wait_ms) end
    bundle_handoffs.serve({a.request})
    serving.opened()
    local reply = bundle_queue.standing(known, a.attempt, a.fingerprint, a.hub)
    if a.wait_ms > 0 or reply[1] ~= 'waiting' then return reply end
    tickets.set_aside(known, 'timeout')
    return {'empty', call_state.dropped}
  end

  local wish = bundle_wishes.read(a.bundle)
  wish.team = holders.of(a.holder).team
  local wanted = {id = a.request, label = wish.units[1].label, run = a.run, holder = a.holder, ttl_ms = a.ttl_ms, idle_ms = a.idle_ms,
    fingerprint = a.fingerprint, attempt = a.attempt, keep_s = a.keep_s, keyed = a.keyed == '1', limit_ms = a.limit_ms, hub = a.hub,
    wish = wish, bundle = a.bundle}
  local found = bundle_supply.find(wish)
  local id = found and bundle_handoffs.grant(wanted, wish, found, 'grant.lent')
  serving.opened()  -- also of a pool whose maintenance turned out to be over
  if id then return bundle_queue.lent(id) end
  local part, there = bundle_stocks.lacking(wish)
  if part and a.hopes ~= '1' and store.settle_left_ms <= 0 then return {'unpublished', part, there} end
  if a.wait_ms <= math.max(0, store.settle_left_ms) then
    if store.settle_left_ms > 0 then return {'settling', math.ceil(store.settle_left_ms)} end
    local label, cap = bundle_plans.over_cap(wish, caps.taken)
    if label then return {'capped', cap, label} end
    return {'empty', call_state.dropped}
  end
  local refusal = bundle_queue.refusal(a.run, a.holder, a.max_label, a.max_run)
  if refusal then return refusal end
  queue.enter(wanted, a.priority, store.clock_ms + a.wait_ms)
  return bundle_queue.standing(wanted, a.attempt, a.fingerprint, a.hub)
end)
