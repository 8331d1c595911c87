-- Change what slots of a node are like: their attributes and what is warm in them. A free slot that a waiter wants now goes to it. Safe to
-- repeat. A process that is not the node any more changes nothing, nor does a call that is older than the last one for the slot.
-- Returns {'ok', a word per slot, per slot 'too-many-classes' or ''} | {'unknown'} (the node has to register again) | {'superseded'};
--   words: 'set' | 'late' | 'unknown' (no such slot) | 'foreign' (the slot of another node)
command.change('capacity/describe_slots', {
  'id',                   -- raw id of the node
  'part',                 -- key part of the id of the node
  'incarnation',          -- of the calling process, '' of plain clients
  'said_number',          -- number of the call, which only rises in an incarnation; '' of plain clients
  'classes_max: number',  -- most classes in the store
  '...slots',             -- per slot: id, attributes as canonical JSON, '' for none or '=' for those it has, keys of what is warm or '='
}, function(a, argv)
  if redis.call('SISMEMBER', keys.nodes, a.id) == 0 then return {'unknown'} end
  local says, number = node_processes.caller(a.part, a.incarnation, a.said_number)
  if says ~= 'own' then return {says} end
  local words, notes, by = {}, {}, a.incarnation .. '|' .. number
  for i = 6, #argv, 3 do
    local slot, attributes, warm = unpack(argv, i, i + 2)
    local record, word, note = slots.read(slot), 'set', ''
    if not record.item then
      word = 'unknown'
    elseif record.part ~= a.part then
      word = 'foreign'
    elseif node_processes.told_since(slot, a.part, true, a.incarnation, number)
      or holds.is_late(redis.call('HGET', keys.slot(slot), 'described'), a.incarnation, number) then
      word = 'late'
    else
      local has, has_warm = slot_classes.of(slot)
      if attributes ~= '=' then has = attributes end
      if warm ~= '=' then has_warm = warm end
      local wanted
      note, wanted = slot_classes.change(slot, record, has, has_warm, a.classes_max)
      if number ~= '' and note ~= 'again' then redis.call('HSET', keys.slot(slot), 'described', by) end
      if wanted then placing.place_anew(slot) end
    end
    words[#words + 1], notes[#notes + 1] = word, note
  end
  serving.opened()
  return {'ok', words, notes}
end)
