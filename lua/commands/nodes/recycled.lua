-- Delete the recycle markers of slots that their node says it has replaced or reset, and lend slots again that wait to be made fresh for
-- the end that it names, or for an earlier one. Slots of other nodes stay as they are. Safe to repeat.
-- Returns {'ok'} | {'superseded' | 'unknown'} (the process is not the node; nothing was done)
command.change('nodes/recycled', {
  'node',         -- raw id of the node
  'part',         -- key part of the id of the node
  'incarnation',  -- of the calling process, '' of plain clients
  '...slots',     -- per slot: id, number of the end for which it was made fresh, or ''
}, function(a, argv)
  local word = node_processes.word(a.part, a.incarnation, redis.call('HGET', keys.orders(a.part), 'incarnation'))
  if word ~= 'own' then return {word} end
  for i = 4, #argv, 2 do
    local slot, number = argv[i], argv[i + 1]
    local record = redis.call('HMGET', keys.slot(slot), 'pool', 'part', 'node')
    if record[2] == a.part and record[3] == a.node then
      redis.call('DEL', keys.recycle(slot))
      redis.call('SREM', keys.replacing(record[1]), slot)
      if freshness.made(slot, a.part, number) then
        history.slot('slot.fresh', {slot = slot, node = record[3], pool = record[1]}, '')
        placing.offer_again(slot)
      end
    end
    redis.call('HDEL', keys.orders(a.part), 'recycle:' .. slot)
  end
  serving.opened()
  return {'ok'}
end)
