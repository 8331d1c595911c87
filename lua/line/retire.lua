-- Drop what nobody attends: waiters and undelivered grants of hubs that are gone, tickets whose time is over. In bites;
-- safe to repeat.
-- Returns {'ok', waiters dropped or set aside, grants taken back, 1 | 0 (there is more)}
local limit = tonumber(ARGV[1])
-- @include store
-- @include take_back
-- @include serve
local dropped, undone = 0, 0
local silent = redis.call('ZRANGE', key_hubs, '-inf', '(' .. clock_ms - SILENT_MS, 'BYSCORE', 'LIMIT', 0, 1)[1]
if silent then
  for _, ticket in ipairs(redis.call('SRANDMEMBER', key_waiters(silent), limit)) do
    local t = read_ticket(ticket)
    if t.label and t.hub == silent then
      set_aside(t, 'hub')
      dropped = dropped + 1
      headroom[#headroom + 1] = t.label  -- whoever stood behind them may have been passed by
    end
    redis.call('SREM', key_waiters(silent), ticket)
  end
  for _, ticket in ipairs(redis.call('SPOP', key_handed(silent), limit)) do
    local slot, token = string.match(redis.call('GET', key_request(ticket)) or '', '^.-|(.*)|(%d+)|.-$')
    local owed = slot and redis.call('HGET', key_slot(slot), 'unseen') == silent
    if owed and take_back(ticket, slot, token, 'hub') then undone = undone + 1 end
  end
  if redis.call('EXISTS', key_waiters(silent), key_handed(silent)) == 0 then redis.call('ZREM', key_hubs, silent) end
end
local late = redis.call('ZRANGE', key_patience, '-inf', clock_ms, 'BYSCORE', 'LIMIT', 0, limit)
for _, ticket in ipairs(late) do
  local t = read_ticket(ticket)
  if t.label then note_ticket('ticket.left', t, step_out(t) and 'timeout' or 'forgotten') end
  redis.call('ZREM', key_patience, ticket)
  redis.call('DEL', key_ticket(ticket))
  dropped = dropped + 1
end
serve_opened()
return {'ok', dropped, undone, (silent or #late == limit) and 1 or 0}
