-- Leases: how a lease is made.
local leases = {}

-- Note the run of a lent slot, for the run and for other programs.
function leases.note_run(slot, run, now)
  redis.call('SET', keys.browser_run(slot), run, 'EX', keys.seconds.browser_run)
  redis.call('ZADD', keys.run(run), now or numbers.whole(store.now_ms), slot)
end

-- Make a lease of a slot that is in no list: in-use list, session, deadline, footprints and indexes, in one step. lease: slot item pool
-- node part label run holder token ttl_ms idle_ms; `listed` is true where the slot is in the in-use list already.
function leases.lend(lease)
  local slot, ttl_ms = lease.slot, lease.ttl_ms
  local text, idle_ms = lease_texts.of(ttl_ms), lease.idle_ms > 0 and numbers.whole(lease.idle_ms) or '0'
  if not lease.listed then redis.call('RPUSH', keys.inuse(lease.pool), lease.item) end
  redis.call('SET', keys.borrow_ttl(slot), '1', 'PX', text.ttl)
  redis.call('HSET', keys.session(slot), 'browserId', slot, 'labelKey', lease.label, 'runId', lease.run,
    'nodeId', lease.node, 'borrowedAtUtc', text.since, 'ttlSeconds', text.ttl_s, 'poolLabel', lease.pool, 'leaseToken', lease.token,
    'holder', lease.holder)
  redis.call('HSET', keys.slot(slot), 'place', 'lent', 'label', lease.label, 'run', lease.run, 'granted_ms',
    text.clock, 'began', text.now, 'visible_ms', text.visible, 'watch_idle', idle_ms, 'holder', lease.holder)
  holders.note(slot, lease.holder)
  bundles.note(slot, lease.token, lease.holder)
  redis.call('ZADD', keys.deadlines, text.deadline, slot)
  redis.call('ZADD', keys.in_flight(lease.label), text.now, slot)
  team_shares.count(slot, lease.pool, lease.holder)
  served_caps.count(slot, lease.pool)
  if lease.run ~= '' then leases.note_run(slot, lease.run, text.now) end
  redis.call('HSET', keys.lent(lease.part), slot, lease.token)
  orders.changed(lease.part)
  if lease.idle_ms > 0 then
    redis.call('SET', keys.borrow_idle(slot), '1', 'PX', idle_ms)
    redis.call('HSET', keys.slot(slot), 'idle_visible_ms', numbers.whole(store.now_ms + lease.idle_ms))
  end
end

-- Return the leases of a node that were asked for under another label than that of their pool, or in a run, or whose holder is known,
-- so that the node can report them with all that: {slot, label, run, holder, ...}.
function leases.asked(part)
  local found = {}
  for _, slot in ipairs(redis.call('HKEYS', keys.lent(part))) do
    local said = redis.call('HMGET', keys.slot(slot), 'label', 'run', 'pool', 'holder')
    local holder = said[4] or ''
    if said[1] and (said[1] ~= said[3] or said[2] ~= '' or holder ~= '') then
      found[#found + 1], found[#found + 2], found[#found + 3], found[#found + 4] = slot, said[1], said[2] or '', holder
    end
  end
  return found
end

-- Return after how many idle ms a lease ends, 0 for no limit: the slot's own rule, else that of its pool, else the hub's. 0 in the own
-- rule stands for the whole lease, where the hub has a rule. The second value is the time without the rule of the pool, where it counts.
local function idle_of(own_ms, hub_idle_ms, ttl_ms, rule)
  local own = own_ms and own_ms ~= '' and tonumber(own_ms)
  if not own and rule and rule.idle then return rule.idle, hub_idle_ms end
  if not own then return hub_idle_ms end
  if own > 0 then return own end
  return hub_idle_ms > 0 and ttl_ms or 0
end

-- Lend a slot that is in no list, or is `listed`, under the next token, and store that as the answer of the request, unless it is false.
-- found: slot item pool node part own_idle_ms. The others are texts as the caller gave them; a negative `ttl_ms` is a default.
function leases.grant_to(found, request, label, run, holder, ttl_ms, idle_ms, fingerprint, attempt, keep_s)
  found.token = found.token or lease_texts.next_token()
  local rule = pool_rules.of(found.pool)
  found.label, found.run, found.holder, found.ttl_ms = label, run, holder, pool_rules.length_ms(rule, numbers.again('ttl_ms', ttl_ms))
  local base_idle_ms
  found.idle_ms, base_idle_ms = idle_of(found.own_idle_ms, idle_ms == '0' and 0 or tonumber(idle_ms), found.ttl_ms, rule)
  leases.lend(found)
  if rule then lease_limits.begin(found.slot, rule, store.clock_ms, base_idle_ms) end
  local answer = request and fingerprint .. '|' .. found.slot .. '|' .. found.token .. '|' .. attempt
  if answer then redis.call('SET', keys.request(request), answer, 'EX', keep_s) end
end

-- Lend a slot to a ticket. t: id label run holder ttl_ms idle_ms fingerprint attempt keep_s.
function leases.grant(t, found)
  leases.grant_to(found, t.id, t.label, t.run, t.holder, t.ttl_ms, t.idle_ms, t.fingerprint, t.attempt, t.keep_s)
end

return leases
