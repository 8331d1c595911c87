-- Read tickets; changes nothing. Returns per ticket:
-- {'waiting' | 'away' (no caller attends it), label, run, position, estimated ms to wait or -1, priority, since (ms since 1970), ms
-- until it is dropped or, if that is known and later, its caller gives up, ttl_ms, fingerprint, keep_s, holder, alternatives as JSON or
-- '', preferred keys, bundle as JSON or ''} (position and estimate are those in its line, or in the line of bundles)
--   | {'granted', slot, label, run, token, pool, item, ms until the lease lapses, ms it lasts, fingerprint, holder, class or ''} (of a
--   bundle the first that is live; its holder names the bundle)
--   | {'elsewhere', realm, request, slot, token, fingerprint} (served in another realm) | {'over', slot} (its lease has ended) |
--   {'unknown'}
command.read('queue/find', {
  '...tickets',
}, function(_, argv)
  local answers = {}
  local function look(ticket)
    local record = redis.call('GET', keys.request(ticket)) or ''
    local there = spill_over.read(record)
    if there then return {'elsewhere', there.realm, there.request, there.slot, there.token, there.asked} end
    local asked, slot, token = string.match(record, '^(.-)|(.*)|(%d+)|.-$')
    if slot then
      if redis.call('HGET', keys.session(slot), 'leaseToken') ~= token then  -- of a bundle another lease may be live
        slot, token = unpack(bundles.live(bundles.id_of(token))[1] or {slot, token})
      end
      local held = redis.call('HMGET', keys.session(slot), 'leaseToken', 'labelKey', 'runId', 'poolLabel', 'ttlSeconds', 'holder')
      if held[1] ~= token then return {'over', slot} end
      local left_ms = tonumber(redis.call('ZSCORE', keys.deadlines, slot) or store.clock_ms) - store.clock_ms
      local item, class = unpack(redis.call('HMGET', keys.slot(slot), 'item', 'class'))
      return {'granted', slot, held[2], held[3], token, held[4], item,
        math.max(0, math.floor(left_ms)), math.floor(tonumber(held[5]) * 1000), asked, held[6] or '', class or ''}
    end
    local t = redis.call('HMGET', keys.ticket(ticket), 'label', 'run', 'score', 'priority', 'since_ms', 'ttl_ms',
      'fingerprint', 'keep_s', 'holder', 'gives_up_ms', 'alternatives', 'prefer', 'bundle')
    if not t[1] then return {'unknown'} end
    local want = (alternatives.read(t[11] or '') or {{t[1], ''}})[1][2]
    local line = t[13] and keys.bundles or want == '' and turns.plain(t[1]) or lines.key_of(t[1], want)
    local rank = redis.call('ZRANK', line, ticket)
    local before = rank or redis.call('ZCOUNT', line, '-inf', '(' .. t[3])
    local left_ms = tonumber(redis.call('ZSCORE', keys.ticket_deadlines, ticket) or store.clock_ms) - store.clock_ms - (rank and 2000 or 0)
    if rank and t[10] then left_ms = math.max(left_ms, tonumber(t[10]) - store.clock_ms) end
    return {rank and 'waiting' or 'away', t[1], t[2], before + 1, t[13] and -1 or tickets.estimate(t[1], before, want), tonumber(t[4]),
      tonumber(t[5]), math.max(0, math.floor(left_ms)), t[6], t[7], t[8], t[9] or '',
      t[11] or '', t[12] or '', t[13] or ''}
  end
  for i = 1, #argv do answers[i] = lenient.look({'unknown'}, look, argv[i]) end
  return answers
end)
