-- Delete what is kept for a node that is not on the books and owns nothing. Safe to repeat. Returns {'ok'}
command.change_unclocked('doctor/repair_part', {
  'part',
  'raw',   -- its id where that is known to differ from the key part, else ''
}, function(a)
  if nodes.registered(a.part, a.raw) or redis.call('HEXISTS', keys.leaving, a.part) == 1 then return {'ok'} end
  redis.call('DEL', keys.node(a.part))
  if redis.call('EXISTS', keys.node_slots(a.part), keys.lent(a.part)) == 0 then redis.call('DEL', keys.orders(a.part)) end
  return {'ok'}
end)
