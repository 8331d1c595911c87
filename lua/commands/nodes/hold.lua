-- Hear from a process of a node which of its slots it holds, and why: free ones leave their pools at once, and one that is
-- well again is placed again. Slots of other nodes stay as they are. Safe to repeat: a late call changes nothing.
-- Returns {'ok', per slot 'ok' | 'late' (a later call said otherwise) | 'unknown' (no such slot) | 'foreign' (of another node)}
--   | {'superseded' | 'unknown'} (the process is not the node; nothing was done)
command.finish('nodes/hold', {
  'node',         -- raw id of the node
  'part',         -- key part of the id of the node
  'incarnation',  -- of the calling process, '' of plain clients
  'said_number',  -- number of the call, which only rises in an incarnation; '' of plain clients
  'whole',        -- '1': the node holds no other slot
  '...slots',     -- per slot: id, reason or '' (the node does not hold it)
}, function(a, argv)
  local says, number = node_processes.caller(a.part, a.incarnation, a.said_number)
  if says ~= 'own' then return {says} end
  local told = a.whole == '1' and redis.call('HGET', keys.orders(a.part), 'held_told')
  if holds.is_late(told, a.incarnation, number) then return {'ok', {}} end
  local words, named = {}, {}
  local function hear(slot, reason)
    named[slot] = true
    local node, part = unpack(redis.call('HMGET', keys.slot(slot), 'node', 'part'))
    if node ~= a.node or part ~= a.part then return part and 'foreign' or 'unknown' end
    local again, late = holds.hear(slot, a.part, a.incarnation, number, reason)
    if again then placing.place_anew(slot) end
    return late and 'late' or 'ok'
  end
  for i = 6, #argv, 2 do words[#words + 1] = hear(argv[i], argv[i + 1]) end
  for _, field in ipairs(a.whole == '1' and store.holds and redis.call('HKEYS', keys.node_holds(a.part)) or {}) do
    local slot = string.match(field, '^node:(.+)$')
    if slot and not named[slot] then hear(slot, '') end
  end
  if a.whole == '1' and number ~= '' then redis.call('HSET', keys.orders(a.part), 'held_told', a.incarnation .. '|' .. number) end
  serving.opened()
  return {'ok', words}
end)
