-- End a lease because its borrower or its node gives it back: the slot goes to the next waiter, else to the tail of its pool, marked
-- for replacement. A call that means an earlier lease, by its token or its run, changes nothing. Safe to repeat: the same request id
-- gets the first answer again.
-- Returns {word, pool or '', run or '', token of the lease that has ended by this call or ''}; word: 'returned' | 'ended' (its node had
--   removed the slot) | 'not lent' | 'stale token' | 'reused' (the request id came with another call before)
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
}, function(a)
  local held = redis.call('HGET', keys.session(a.slot), 'leaseToken')
  -- A lease that exists under this token has not been ended by this call before.
  local new = a.keyed == '' and held and held == a.token
  local before = not new and redis.call('GET', keys.request(a.request))
  if before then
    -- The answer with the token goes to the hub, which remembers the end.
    local of, word, ended = string.match(before, '^return|(.*)|(%l[%l ]*)|?(%d*)$')
    -- A caller with an idempotency key that names another lease than the one that ended under the key means another call.
    local other = a.keyed == '1' and a.token ~= '' and ended and ended ~= '' and ended ~= a.token
    local same = of == a.slot and not other
    return {same and word or 'reused', '', '', same and ended or ''}
  end

  local function done(word, pool, of_run, ended)
    local tail = ended and ended ~= '' and '|' .. ended or ''
    redis.call('SET', keys.request(a.request), 'return|' .. a.slot .. '|' .. word .. tail, 'EX', a.keep_s)
    serving.opened()
    return {word, pool or '', of_run or '', ended or ''}
  end

  if a.token ~= '' and held ~= a.token then
    -- The holder was told of the end, and says by this call that it has stopped; an operator who ends the lease again does not know
    -- that.
    if a.revokes ~= '1' and revocations.believed_in(a.slot) and redis.call('HGET', keys.revoked_tokens, a.slot) == a.token then
      revocations.forget(a.slot)
      placing.offer_again(a.slot)
    end
    if not reports.is_missing(a.slot, a.token, held) then return done('stale token') end
    endings.note_ended(a.slot, a.token)  -- a later report of the lease by its node or its hub is late
    return done('ended', '', '', a.token)
  end
  local record = slots.read(a.slot)
  local whole = record.place == 'lent' and record.run and a.only_run ~= '1'
  local session = whole and {} or redis.call('HMGET', keys.session(a.slot), 'runId', 'labelKey', 'poolLabel')
  if a.only_run == '1' and session[1] ~= a.run then return done('not lent', record.pool) end
  if a.token == '' and releases.is_late(record, a.run, a.arrived_ms) then return done('not lent', record.pool) end
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
    endings.finish(a.slot, session[2], session[1], record.part)
    if session[2] then
      history.slot('grant.returned', {slot = a.slot, node = record.node, pool = record.pool or session[3], label = session[2],
        run = session[1]}, 'removed')
    end
    return done('not lent', record.pool)
  end
  if a.revokes ~= '' then revocations.revoke(a.slot, a.revokes == '1' and revocations.grace_ms() or 0, 'operator', a.reason) end
  record.token = held
  local listed = releases.release(a.slot, record, '120', a.revokes ~= '' and 'grant.ended' or 'grant.returned',
    a.revokes ~= '' and 'operator' or '')
  return done(listed and 'returned' or 'ended', record.pool, record.run or session[1], held)
end)
