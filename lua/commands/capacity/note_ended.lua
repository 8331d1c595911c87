-- After the store was lost: a hub says which grants were given back a moment before, should their nodes, or the hubs that
-- made them, not know it yet: those that came back as lent end now. Safe to repeat. Returns {'ok'}
command.change('capacity/note_ended', {
  '...ended',  -- per grant: slot, token
}, function(_, argv)
  for i = 1, #argv, 2 do
    local slot, token = argv[i], argv[i + 1]
    endings.note_ended(slot, token)
    local held = redis.call('HGET', keys.session(slot), 'leaseToken') or ''
    local record = held ~= '' and not numbers.above(held, token) and slots.read(slot)
    if record and record.place == 'lent' then releases.release(slot, record, 120, 'grant.returned', '') end
  end
  serving.opened()
  return {'ok'}
end)
