-- Drop what no hub attends: waiters and undelivered leases of hubs that no longer tick, and tickets whose deadline has passed. In
-- batches; safe to repeat. Returns {'ok', tickets dropped or set aside, leases taken back, 1 | 0 (there may be more)}
command.finish('queue/retire', {
  'limit: number',  -- most tickets of each kind in this call
}, function(a)
  local dropped, undone = 0, 0
  local silent = redis.call('ZRANGE', keys.hubs, '-inf', '(' .. store.clock_ms - hubs.SILENT_MS, 'BYSCORE', 'LIMIT', 0, 1)[1]
  if silent then
    local attended = lenient.call({}, 'SRANDMEMBER', keys.waiters(silent), a.limit)
    for _, ticket in ipairs(attended) do
      local t = tickets.read(ticket)
      if t.label and t.hub == silent then
        tickets.set_aside(t, 'hub')
        dropped = dropped + 1
        for _, each in ipairs(alternatives.of(t)) do
          local passed, label = call_state.passed_over, each[1]
          if not passed[label] then passed[label], passed[#passed + 1] = true, label end
        end
      end
      redis.call('SREM', keys.waiters(silent), ticket)
    end
    local owing = lenient.call({}, 'SPOP', keys.handed(silent), a.limit)
    for _, ticket in ipairs(owing) do
      local slot, token = string.match(lenient.call('', 'GET', keys.request(ticket)) or '', '^.-|(.*)|(%d+)|.-$')
      local owed = slot and (lenient.fields(keys.slot(slot), 'unseen')[1] == silent or bundles.is_unseen(bundles.id_of(token), silent))
      if owed and releases.take_back(ticket, slot, token, 'hub') then undone = undone + 1 end
    end
    local over = not (attended[1] or owing[1])  -- also where the keys have another type
    if over or redis.call('EXISTS', keys.waiters(silent), keys.handed(silent)) == 0 then hubs.drop(silent) end
  end
  local late = redis.call('ZRANGE', keys.ticket_deadlines, '-inf', store.clock_ms, 'BYSCORE', 'LIMIT', 0, a.limit)
  for _, ticket in ipairs(late) do
    local t = tickets.read(ticket)
    if t.label then history.ticket('ticket.left', t, tickets.step_out(t) and 'timeout' or 'forgotten') end
    redis.call('ZREM', keys.ticket_deadlines, ticket)
    redis.call('DEL', keys.ticket(ticket))
    dropped = dropped + 1
  end
  serving.opened()
  return {'ok', dropped, undone, (silent or #late == a.limit) and 1 or 0}
end)
