-- Put slots of a node on offer, at the tail of their pools. Safe to repeat: a slot that is known keeps its place. A slot that the node
-- reports as lent, or that a hub has brought back as lent, stays lent with its token. A process that is not the node any more changes
-- nothing, nor does a call that is older than the last one for the slot. A slot of another node whose id names it changes to this node.
-- Returns {'ok', a word per slot, per slot the other node that it belongs to or '', per slot 'too-many-classes' or ''}
--   | {'unknown'} (the node is not registered, or has to register again) | {'superseded'} (another process is the node); words:
--   'published' | 'unchanged' (it is on offer or held already) | 'lent' | 'late' (withdrawn since), and of slots of another node:
--   'taken' | 'reserved' (its id names that node) | 'claimed' (lent)
command.change('capacity/publish', {
  'id',              -- raw id of the node
  'part',            -- key part of the id of the node
  'policy',          -- 'recycle' (a slot is replaced after each lease) | 'reuse' | 'fresh' (and is not lent before)
  'ttl_ms: number',  -- how long a lease lasts that the node reports
  'incarnation',     -- of the calling process, '' of plain clients
  'said_number',     -- number of the call, which only rises in an incarnation; '' of plain clients
  'says',            -- '1': the call says which of its slots the node holds
  'classes_max: number',  -- most classes in the store
  '...slots',        -- per slot: id, pool, item, own idle ms or '', where it is lent token, label, run, holder, else '', the
  -- ends made fresh or not made fresh, or '', why the node holds it or '', number and reason of an operator's last call or '',
  -- attributes as canonical JSON or '', and the keys of what is warm in it
}, function(a, argv)
  if redis.call('SISMEMBER', keys.nodes, a.id) == 0 then return {'unknown'} end
  local says, number = node_processes.caller(a.part, a.incarnation, a.said_number)
  if says ~= 'own' then return {says} end
  if a.policy == 'fresh' then freshness.in_use() end
  local words, others, notes, said = {}, {}, {}, {incarnation = a.incarnation, number = number, says = a.says, ttl_ms = a.ttl_ms,
    classes_max = a.classes_max}
  for i = 9, #argv, 15 do
    local word, other, note = publications.take_in(a, said, unpack(argv, i, i + 14))
    words[#words + 1], others[#others + 1], notes[#notes + 1] = word, other or '', note or ''
  end
  if store.reporting then redis.call('HSET', keys.orders(a.part), 'reported', store.generation) end
  serving.opened()
  return {'ok', words, others, notes}
end)
