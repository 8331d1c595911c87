-- Publications: what a node says of one of its slots.
local publications = {}

-- Take in what the call of a node (`a` and `said` as in capacity/publish) says of a slot; the other arguments are those of that command.
-- Returns a word, the other node that the slot belongs to or nil, and a note or nil.
function publications.take_in(a, said, slot, pool, item, idle_ms, token, label, run, holder, made, ended, unwell, called, barred,
    attributes, warm)
  local record = slots.read(slot)
  local own = record.item and record.part == a.part
  local late, word, refused, other, note = (node_processes.told_since(slot, a.part, own, a.incarnation, said.number))
  if not late and not own then refused, other = belonging.refusal(record, a.id, a.part, pool) end
  if record.item and not own and not other then record = slots.read(slot) end  -- it has changed to this node
  local unchanged = record.item == item and record.pool == pool
    and slots.still_listed(record.pool, record.item, record.place)
  if not reports.is_live(slot, token, holder) then token, ended = '', numbers.above(token, ended) and token or ended end
  local described = store.matching and own and redis.call('HGET', keys.slot(slot), 'described')
  if described and holds.is_late(described, a.incarnation, said.number) then attributes, warm = slot_classes.of(slot) end
  if late then
    word = own and (record.place == 'lent' and 'lent' or 'unchanged') or 'late'
  elseif refused then
    word = refused
  elseif record.place == 'lent' and not numbers.above(token, redis.call('HGET', keys.session(slot), 'leaseToken') or token) then
    redis.call('HDEL', keys.slot(slot), 'unreported')
    redis.call('HSET', keys.slot(slot), 'policy', a.policy, 'reported', store.generation)
    holds.publish(slot, a.part, said, unwell, called, barred)
    note = slot_classes.change(slot, record, attributes, warm, said.classes_max)
    word = 'lent'
  elseif unchanged and token == '' then
    redis.call('HSET', keys.slot(slot), 'policy', a.policy, 'reported', store.generation)
    local again = redis.call('SREM', keys.aside(a.part), slot) == 1 and record.place == 'held'
    again = freshness.hear(slot, a.part, a.policy, made, ended, record.policy) or again
    again = holds.publish(slot, a.part, said, unwell, called, barred) or again
    local wanted
    note, wanted = slot_classes.change(slot, record, attributes, warm, said.classes_max)
    if (again or wanted) and slots.unlist(pool, item, record.place) then placing.place(slot, a.part, pool, item) end
    word = 'unchanged'
  else
    made = freshness.latest(slot, made)
    if record.place == 'lent' then endings.end_lease(record, token ~= '') end
    if record.item then
      slots.unlist(record.pool, record.item, record.place)
      slots.drop(slot, record.pool, record.part)
    end
    redis.call('DEL', keys.recycle(slot))
    slots.create(slot, item, pool, a.id, a.part, idle_ms, a.policy)
    redis.call('HSET', keys.slot(slot), 'reported', store.generation)
    note = slot_classes.change(slot, {pool = pool}, attributes, warm, said.classes_max)
    holds.publish(slot, a.part, said, unwell, called, barred, not record.item)
    if token ~= '' then
      label = label == '' and pool or label
      leases.lend({slot = slot, item = item, pool = pool, node = a.id, part = a.part, label = label, run = run, holder = holder,
        token = token, ttl_ms = reports.as_renewed(slot, token, said.ttl_ms), idle_ms = 0})
      history.slot('grant.adopted', {slot = slot, node = a.id, pool = pool, label = label, run = run, holder = holder}, 'reported')
      word = 'lent'
    else
      history.slot('slot.published', {slot = slot, node = a.id, pool = pool}, '')
      redis.call('SREM', keys.replacing(pool), slot)
      if a.policy == 'fresh' then freshness.enter(slot, a.part, made, ended, record.policy) end
      placing.place(slot, a.part, pool, item)
      word = 'published'
    end
  end
  if not late and not other and note ~= 'again' then node_processes.note_published(slot, a.part, said) end
  return word, other, note
end

return publications
