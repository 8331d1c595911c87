-- @include release
-- @include ticket
-- Take back the grant that a request was answered with and nobody received: its slot goes to whoever is next. A ticket
-- with a key keeps the place it had. Returns the slot, nil when that grant is over.
local function take_back(request, slot, token, why)
  if redis.call('HGET', key_session(slot), 'leaseToken') ~= token then return nil end
  settle_delivery(slot, request)
  redis.call('DEL', key_request(request))
  local t = read_ticket(request)
  if t.label then
    note_ticket('ticket.away', t, 'undone')
    redis.call('PERSIST', key_ticket(request))
    redis.call('HDEL', key_ticket(request), 'handed')
    redis.call('ZADD', key_patience, clock_ms + AWAY_MS, request)
  end
  release(slot, read_slot(slot), 0, 'grant.undone', why)
  return slot
end
