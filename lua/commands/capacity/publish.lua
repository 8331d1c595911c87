-- Put slots of a node on offer, at the tail of their pools. Safe to repeat: a slot that is known keeps its place. A slot that the node
-- reports as lent, or that a hub has brought back as lent, stays lent with its token. A process that is not the node any more changes
-- nothing, nor does a call that is older than the last one for the slot. A slot of another node whose id names this node changes to it
-- at once or, while it is lent, when its lease ends.
-- Returns {'ok', a word per slot, per slot the other node that it belongs to or ''} | {'unknown'} (the node is not registered, or has
--   to register again) | {'superseded'} (another process is the node); words: 'published' | 'unchanged' (it is on offer or held already)
--   | 'lent' | 'late' (it was withdrawn since), and of slots of another node: 'taken' | 'reserved' (its id names that node) | 'claimed'
--   (it is lent there, and changes to this node afterwards)
command.change('capacity/publish', {
  'id',              -- raw id of the node
  'part',            -- key part of the id of the node
  'policy',          -- 'recycle' (a slot is replaced after each lease) | 'reuse' | 'fresh' (and is not lent before)
  'ttl_ms: number',  -- how long a lease lasts that the node reports
  'incarnation',     -- of the calling process, '' of plain clients
  'said_number',     -- number of the call, which only rises in an incarnation; '' of plain clients
  '...slots',        -- per slot: id, pool, item, own idle ms or '', where it is lent token, label, run, else '', and the ends
  -- made fresh or not made fresh, or ''
}, function(a, argv)
  if redis.call('SISMEMBER', keys.nodes, a.id) == 0 then return {'unknown'} end
  local says, number = node_processes.caller(a.part, a.incarnation, a.said_number)
  if says ~= 'own' then return {says} end
  if a.policy == 'fresh' then freshness.in_use() end
  local words, others = {}, {}
  for i = 7, #argv, 9 do
    local slot, pool, item, idle_ms, token, label, run, made, ended = unpack(argv, i, i + 8)
    local record = slots.read(slot)
    local own = record.item and record.part == a.part
    local late = node_processes.told_since(slot, a.part, own, a.incarnation, number)
    local word, refused, other
    if not late and not own then refused, other = belonging.refusal(record, a.id, a.part, pool) end
    if record.item and not own and not other then record = slots.read(slot) end  -- it has changed to this node
    local unchanged = record.item == item and record.pool == pool
      and slots.still_listed(record.pool, record.item, record.place)
    if not reports.is_live(slot, token) then token, ended = '', numbers.above(token, ended) and token or ended end
    if late then
      word = own and (record.place == 'lent' and 'lent' or 'unchanged') or 'late'
    elseif refused then
      word = refused
    elseif record.place == 'lent' and not numbers.above(token, redis.call('HGET', keys.session(slot), 'leaseToken') or token) then
      redis.call('HDEL', keys.slot(slot), 'unreported')
      redis.call('HSET', keys.slot(slot), 'policy', a.policy, 'reported', store.generation)
      word = 'lent'
    elseif unchanged and token == '' then
      redis.call('HSET', keys.slot(slot), 'policy', a.policy, 'reported', store.generation)
      local again = redis.call('SREM', keys.aside(a.part), slot) == 1 and record.place == 'held'
      again = freshness.hear(slot, a.part, a.policy, made, ended, record.policy) or again
      if again and slots.unlist(pool, item, record.place) then placing.place(slot, a.part, pool, item) end
      word = 'unchanged'
    else
      made = freshness.latest(slot, made)
      if record.item then
        if record.place == 'lent' then endings.finish(slot, record.label, record.run, record.part) end
        slots.unlist(record.pool, record.item, record.place)
        slots.drop(slot, record.pool, record.part)
      end
      redis.call('DEL', keys.recycle(slot))
      slots.create(slot, item, pool, a.id, a.part, idle_ms, a.policy)
      redis.call('HSET', keys.slot(slot), 'reported', store.generation)
      if token ~= '' then
        if label == '' then label = pool end
        leases.lend({slot = slot, item = item, pool = pool, node = a.id, part = a.part, label = label, run = run, token = token,
          ttl_ms = reports.as_renewed(slot, token, a.ttl_ms), idle_ms = 0})
        history.slot('grant.adopted', {slot = slot, node = a.id, pool = pool, label = label, run = run}, 'reported')
        word = 'lent'
      else
        history.slot('slot.published', {slot = slot, node = a.id, pool = pool}, '')
        redis.call('SREM', keys.replacing(pool), slot)
        if a.policy == 'fresh' then freshness.enter(slot, a.part, made, ended) end
        placing.place(slot, a.part, pool, item)
        word = 'published'
      end
    end
    if not late and not other then node_processes.note_published(slot, a.part, a.incarnation, number) end
    words[#words + 1], others[#others + 1] = word, other or ''
  end
  if store.reporting then redis.call('HSET', keys.orders(a.part), 'reported', store.generation) end
  serving.opened()
  return {'ok', words, others}
end)
