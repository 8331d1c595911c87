-- Register a node, or update its record; this counts as a heartbeat. Safe to repeat. A process that names its incarnation and is newer
-- than the one that was the node takes over: the older process is told so with its next heartbeat, and its late calls change nothing.
-- Newer is the process with the higher term, a number that it was given when it registered first; without a term the process that
-- registers later. A process on another host does not take over while the older one is heard. Nor does a process that says it registers
-- for the first time, while nodes report what the store has lost: the process before it, whose leases it does not know, may not have
-- reported them yet.
-- Returns {'registered' | 'updated', version of its orders, term or '', incarnation that it supersedes or '', the drain call that
--   waited for the node as `drains.kept` returns it or {}, and of a node that is taken over {slot, token, ...} of its leases, and their
--   labels and runs as `leases.asked` returns them, so that the new process can report them after a loss}
--   | {'in use', host of the other process, ms since it was heard} | {'superseded'} (by another process) | {'collides', other id} (it
--   has the same key part) | {'settling', ms until it may register}
--   | {'leaving'} (the slots of its former registration are to be pruned first)
command.change('nodes/register', {
  'id',                  -- raw id of the node
  'part',                -- key part of the id
  'apps',
  'capacity',
  'labels',
  'base_url',            -- '' to delete the field
  'timeout_ms: number',  -- timeout of nodes
  'audit_new',           -- audit entry for a new node
  'audit_old',           -- audit entry for an update
  'audit_max: number',   -- most entries of the audit log
  'incarnation',         -- of the calling process, '' of plain clients
  'said_term',           -- the term that it was given before, '' for none
  'first',               -- '1': it says that it has not registered before
  'host',                -- where it runs, '' where it does not say
  'token_ms: number',    -- for how long a token that the node made by joining is kept without being shown
  '...pool_labels',      -- the pool labels among its apps
}, function(a, argv)
  local raw = nodes.owner_of(a.part)
  if raw and raw ~= a.id then return {'collides', raw} end
  if redis.call('HEXISTS', keys.leaving, a.part) == 1 then return {'leaving'} end

  local duty = redis.call('HMGET', keys.orders(a.part), 'incarnation', 'term', 'host', 'returned')
  local term, before = duty[2] or '', ''
  if a.incarnation ~= '' and a.incarnation ~= duty[1] then
    local past = redis.call('LPOS', keys.incarnations(a.part), a.incarnation)
    if past or (a.said_term ~= '' and duty[2] and numbers.above(duty[2], a.said_term)) then return {'superseded'} end
    local silent_ms = store.clock_ms - tonumber(redis.call('ZSCORE', keys.beats, a.id) or '-inf')
    if duty[1] and duty[3] and a.host ~= '' and a.host ~= duty[3] and silent_ms <= a.timeout_ms / 2 then
      return {'in use', duty[3], math.max(0, math.floor(silent_ms))}
    end
    local lost = store.reporting and (not duty[1] or duty[4] == store.generation)
    if lost and a.first == '1' and not redis.call('LPOS', keys.incarnations(a.part), 'left ' .. store.generation) then
      return {'settling', math.ceil(tonumber(store.reopened_ms) + store.node_timeout_ms - store.clock_ms)}
    end
    if lost then redis.call('HSET', keys.orders(a.part), 'returned', store.generation) end
    term, before = a.said_term ~= '' and a.said_term or lease_texts.next_token(), duty[1] or ''
    if duty[1] then node_processes.retire(a.part, duty[1]) end
    redis.call('DEL', keys.withdrawn(a.part))
    redis.call('HSET', keys.orders(a.part), 'incarnation', a.incarnation, 'term', term)
    redis.call('HINCRBY', keys.orders(a.part), 'version', 1)  -- its first heartbeat is told all orders
    redis.call('HDEL', keys.orders(a.part), 'host')
    if a.host ~= '' then redis.call('HSET', keys.orders(a.part), 'host', a.host) end
  end

  local known = redis.call('EXISTS', keys.node(a.part)) == 1
  redis.call('HSET', keys.node(a.part), 'Apps', a.apps, 'Capacity', a.capacity, 'Labels', a.labels, 'LastSeen', times.text(store.now_ms))
  if a.base_url ~= '' then
    redis.call('HSET', keys.node(a.part), 'BaseUrl', a.base_url)
  else
    redis.call('HDEL', keys.node(a.part), 'BaseUrl')
  end
  if a.part ~= a.id then redis.call('HSET', keys.node(a.part), 'HubId', a.id) end
  redis.call('SADD', keys.nodes, a.id)
  redis.call('SET', keys.node_alive(a.part), '1', 'PX', math.max(a.timeout_ms, 90000))  -- a node may write it, every 10 s
  redis.call('ZADD', keys.beats, store.clock_ms, a.id)
  for i = 16, #argv do
    if redis.call('EXISTS', keys.available(argv[i])) == 1 and pools.open(argv[i]) then serving.pool(argv[i]) end
  end
  tokens.registered(a.part, a.token_ms)
  if not known then history.note('node.registered', 'node', a.id) end
  if before ~= '' then history.note('node.superseded', 'node', a.id, 'incarnation', a.incarnation, 'before', before) end
  audit.write(keys.audit, known and a.audit_old or a.audit_new, a.audit_max)
  local version = redis.call('HGET', keys.orders(a.part), 'version') or '0'
  return {known and 'updated' or 'registered', version, a.incarnation ~= '' and term or '', before, drains.kept(a.part),
    before ~= '' and redis.call('HGETALL', keys.lent(a.part)) or {}, before ~= '' and leases.asked(a.part) or {}}
end)
