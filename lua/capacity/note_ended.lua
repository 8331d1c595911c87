-- After the store was lost: a hub says which grants were given back a moment before, should their nodes, or the hubs that
-- made them, not know it yet: those that came back as lent end now. Safe to repeat. Returns {'ok'}
-- @rest ended                       per grant: slot, token
-- @include store
-- @include release
-- @include serve
for i = 1, #ARGV, 2 do
  local slot, token = ARGV[i], ARGV[i + 1]
  note_ended(slot, token)
  local held = redis.call('HGET', key_session(slot), 'leaseToken') or ''
  local record = held ~= '' and not above(held, token) and read_slot(slot)
  if record and record.place == 'lent' then release(slot, record, 120, 'grant.returned', '') end
end
serve_opened()
return {'ok'}
