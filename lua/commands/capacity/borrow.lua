-- Lend the slot that has waited longest in the best pool for a label; where there is none, or a waiter is to have it, enter the queue.
-- The request id is the id of the ticket. Safe to repeat: a repeat gets the same place or the same lease, and looks again whether the
-- queue can be served.
-- Returns {'ok', slot, token, item, pool, ms until the lease lapses, ms it lasts, run, dropped, holder, label that it is served under,
--   class of the slot or ''} (dropped: items that cannot be lent)
--   | {'waiting', position in the queue of the label, estimated ms to wait or -1, dropped}
--   | {'empty', dropped} | {'capped', leases that count, label of the cap} | {'settling', ms left} (for a call that waits less)
--   | {'per-label-cap', waiters} | {'per-run-cap', waiters} | {'deadline', position, estimated ms} (it may not enter the queue)
--   | {'too-many-expressions', how many lines of tickets that want something there may be}
--   | {'elsewhere', realm, request, slot, token} (the ticket was served in another realm)
--   | {'over', slot} (its lease has ended) | {'undone'} (withdrawn) | {'reused'} (the request id came with another call before)
command.change('capacity/borrow', {
  'label',              -- of the alternative that is preferred
  'alternatives',       -- JSON: label, want, its tree and how it was written, per alternative; '' for the label alone and no preference
  'prefer',             -- keys of what is best warm in the slot, with blanks between, '' for none
  'ttl_ms',             -- how long the lease lasts; negative: unless the rule of its pool says otherwise
  'idle_ms',            -- idle ms after which the lease ends, 0 for no such rule
  'run',                -- the run of the borrower, '' for none
  'holder',             -- JSON of the borrower, as lua/holders.lua says
  'request',            -- request id, and id of the ticket
  'attempt',            -- id of this call: a request may be repeated, at other hubs too
  'fingerprint',        -- digest of what was asked for
  'keep_s',             -- for how many seconds the answer to the request is kept
  'keyed',              -- '1': the caller named the request id (an idempotency key) and may repeat the call
  'repeated',           -- '1': this call has asked before and waits on
  'hub',                -- the hub that answers the caller
  'wait_ms: number',    -- how long this call may wait, 0: not at all
  'limit_ms: number',   -- the longest wait that may be expected; -1: no limit
  'priority: number',   -- a point counts as a second in the queue
  'max_label: number',  -- most waiters of a label
  'max_run: number',    -- most waiters of a run
}, function(a)
  local before, withdrawn = unpack(redis.call('MGET', keys.request(a.request), keys.request(a.attempt)))
  if withdrawn == 'undone' or before == 'undone' then return {'undone'} end
  if before then return queue.granted(before, a.request, a.attempt, a.fingerprint, a.hub) end

  -- The client of Redis may send a call twice: the second finds the ticket of the first.
  local known = (a.keyed == '1' or a.repeated == '1' or turns.anybody()) and tickets.read(a.request)
  if known and known.label then
    if known.fingerprint ~= a.fingerprint then return {'reused'} end
    local waits = redis.call('ZSCORE', keys.queue(a.label), a.request)
    if waits and a.wait_ms == 0 then return {'empty', call_state.dropped} end
    -- A call that waits on leaves the ticket to a later call, unless the hub of that call no longer ticks.
    local later = waits and a.repeated == '1' and known.attempt ~= a.attempt and hubs.is_heard(known.hub)
    if not later then queue.attend(known, a.hub, a.attempt, store.clock_ms + a.wait_ms) end
    if a.alternatives == '' then serving.label(a.label) else newcomers.serve_again(known, a.prefer) end
    serving.opened()
    local reply = queue.standing(known, a.attempt, a.fingerprint, a.hub)
    if a.wait_ms > 0 or reply[1] ~= 'waiting' then return reply end
    tickets.set_aside(known, 'timeout')
    return {'empty', call_state.dropped}
  end

  local wanted = {id = a.request, label = a.label, run = a.run, holder = a.holder, ttl_ms = a.ttl_ms, idle_ms = a.idle_ms,
    fingerprint = a.fingerprint, attempt = a.attempt, keep_s = a.keep_s, keyed = a.keyed == '1', limit_ms = a.limit_ms, hub = a.hub}
  if a.alternatives ~= '' then
    wanted.asked, wanted.prefer, wanted.alternatives = a.alternatives, a.prefer, alternatives.read(a.alternatives)
    for _, each in ipairs(wanted.alternatives) do wants.learn(each[2], each[3]) end
  end
  local capped, live = newcomers.capped(wanted)
  if store.settle_left_ms <= 0 then
    local found = newcomers.lend(wanted)
    serving.opened()
    if found then
      return {'ok', found.slot, found.token, found.item, found.pool, found.ttl_ms, found.ttl_ms, a.run, call_state.dropped, a.holder,
        wanted.label, found.class or ''}
    end
  end
  if a.wait_ms <= math.max(0, store.settle_left_ms) then
    if store.settle_left_ms > 0 then return {'settling', math.ceil(store.settle_left_ms)} end
    local by, most = newcomers.served_capped(wanted)
    if capped or by then return {'capped', by and most or live, by or capped} end
    return {'empty', call_state.dropped}
  end
  local refusal = queue.admit(wanted, a.max_label, a.max_run, a.limit_ms, a.priority)
  if refusal then return refusal end
  queue.enter(wanted, a.priority, store.clock_ms + a.wait_ms)
  return queue.standing(wanted, a.attempt, a.fingerprint, a.hub)
end)
