-- End a lease because its borrower or its node gives it back: the slot goes to the next waiter, else to the tail of its pool, marked
-- for replacement. A call that means an earlier lease, by its token or its run, changes nothing. Safe to repeat: the same request id
-- gets the first answer again.
-- Returns {word, pool or '', run or '', token of the lease that has ended by this call or '', bundle that has ended with it, if any};
--   word: 'returned' | 'ended' (its node had removed the slot) | 'not lent'
--   | 'stale token' | 'reused' (the request id came with another call before)
--   | {'not-holder', holder, since when, ''} (another caller's: nothing was done) | {'settling', '', '', ''} (not reported after a loss)
command.finish('capacity/give_back', {
  'slot',
  'hint',        -- the label that the caller names: for slots without a record
  'token',       -- '' when the caller has none
  'run',         -- '' when the caller names none
  'only_run',    -- '1': end only a lease of that run
  'request',     -- request id: a repeat gets the first answer
  'keyed',       -- '1': the caller named the request id (an idempotency key), and may have used it for another call
  'keep_s',      -- for how many seconds the answer is kept
  'arrived_ms',  -- the hub clock at which the call came, at the latest; '' where that is not known
  'revokes',     -- '1': an operator ends the lease, '2': and its holder gets no grace; '' for a return
  'reason',      -- the operator's, for the holder
  'by',          -- who calls, as `holders.is_foreign` says
}, function(a)
  local held, holder = unpack(redis.call('HMGET', keys.session(a.slot), 'leaseToken', 'holder'))
  -- A lease that exists under this token has not been ended by this call before.
  local new = a.keyed == '' and held and held == a.token
  local before = not new and redis.call('GET', keys.request(a.request))
  if before then
    -- The answer with the token goes to the hub, which remembers the end.
    local of, word, ended, torn = string.match(before, '^return|(.*)|(%l[%l ]*)|?(%d*)(b?%d*)$')
    -- A caller with an idempotency key that names another lease than the one that ended under the key means another call.
    local other = a.keyed == '1' and a.token ~= '' and ended and ended ~= '' and ended ~= a.token
    local same = of == a.slot and not other
    return {same and word or 'reused', '', '', same and ended or '', same and torn ~= '' and torn or nil}
  end

  local function done(word, pool, of_run, ended, torn)
    local tail = ended and ended ~= '' and '|' .. ended .. (torn or '') or ''
    redis.call('SET', keys.request(a.request), 'return|' .. a.slot .. '|' .. word .. tail, 'EX', a.keep_s)
    serving.opened()
    return {word, pool or '', of_run or '', ended or '', torn}
  end

  if a.token ~= '' and held ~= a.token then
    if a.revokes ~= '1' then releases.hear_stopped(a.slot, a.token, a.by) end
    local missing = reports.is_missing(a.slot, a.token, held)
    if missing and #a.by == 32 then return {'settling', '', '', ''} end
    -- A later report of the lease by its node or its hub is late, also by a hub that stood still while all others reported.
    if #a.by < 32 and reports.is_live(a.slot, a.token) then endings.note_ended(a.slot, a.token, a.by == '') end
    return done(missing and 'ended' or 'stale token', '', '', missing and a.token or '')
  end
  local record, torn = slots.read(a.slot), a.revokes ~= '' and select(2, bundles.tied(holder)) or nil
  local whole = record.place == 'lent' and record.run and a.only_run ~= '1'
  local session = whole and {} or redis.call('HMGET', keys.session(a.slot), 'runId', 'labelKey', 'poolLabel')
  if a.only_run == '1' and session[1] ~= a.run then return done('not lent', record.pool) end
  if a.token == '' and releases.is_late(record, a.run, a.arrived_ms) then return done('not lent', record.pool) end
  if holders.is_foreign(a.by, holder, a.token ~= '') then
    if redis.call('EXISTS', keys.session(a.slot)) == 0 then return done('not lent', record.pool) end
    return holders.refusal(a.slot)
  end
  if not record.item then
    -- Another program lent it: its item is looked for in the pools of its session, of the caller, or, with a session, in all.
    local likely = {session[3] or a.hint, session[2] or a.hint, a.hint}
    if session[2] then
      for _, pool in ipairs(redis.call('ZRANGE', keys.pools, 0, 99)) do likely[#likely + 1] = pool end
    end
    record = foreign_items.adopt_lent(a.slot, likely, session[2], session[1]) or record
  end
  if record.place ~= 'lent' then
    if record.policy ~= 'reuse' then slots.mark_recycle(a.slot, record.part, 120) end
    if session[2] then
      record.pool, record.label, record.run, record.holder = record.pool or session[3], session[2], session[1], holder
      endings.end_lease(record, true)
      history.slot('grant.returned', record, 'removed')
    else endings.finish(a.slot, nil, session[1], record.part) end
    return done('not lent', record.pool)
  end
  if a.revokes ~= '' then revocations.revoke(a.slot, a.revokes == '1' and revocations.grace_ms() or 0, 'operator', a.reason) end
  record.token = held
  local listed = releases.release(a.slot, record, '120', unpack(a.revokes ~= '' and {'grant.ended', 'operator'} or {'grant.returned', ''}))
  return done(listed and 'returned' or 'ended', record.pool, record.run or session[1], held, torn)
end)
