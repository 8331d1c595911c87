-- The caller of an attempt is gone, or has waited long enough: take back its lease, which goes to the next waiter, or
-- its place in the queue, which a ticket with a key keeps for a while. A lease stays while another attempt has it too: that
-- caller may hold what it got. An attempt that has not been carried out yet never will be. Safe to repeat.
-- Returns {'undone', slot, token} | {'granted'} (and left alone) | {'left', 'away' | 'dropped'} | {'nothing'}
--   | {'elsewhere', realm, request, slot, token} (served in another realm, which is to take it back)
command.finish('capacity/undo', {
  'request',
  'attempt',
  'hub',      -- the hub that attended it
  'why',      -- 'gone' | 'timeout' | 'stopping': only the place in the queue, a lease is left alone
}, function(a)
  local before = redis.call('GET', keys.request(a.request))
  local there = spill_over.read(before)
  if there then
    if a.why ~= 'gone' then return {'granted'} end
    if a.request ~= a.attempt then redis.call('SET', keys.request(a.attempt), 'undone', 'EX', 60) end
    return spill_over.said(there)
  end
  local asked, slot, token, owners = string.match(before or '', '^(.-)|(.*)|(%d+)|(.*)$')
  local owns = slot and attempts.has(owners, a.attempt)
  if slot and a.why ~= 'gone' then return {owns and 'granted' or 'nothing'} end
  if a.request ~= a.attempt or not slot then redis.call('SET', keys.request(a.attempt), 'undone', 'EX', 60) end
  local t = tickets.read(a.request)
  if not slot then
    if t.label and t.attempt == a.attempt then return {'left', tickets.set_aside(t, a.why)} end
    return {'nothing'}
  end
  if not owns then return {'nothing'} end
  local others = attempts.others(owners, a.attempt)
  if others ~= '' then
    redis.call('SET', keys.request(a.request), table.concat({asked, slot, token, others}, '|'), 'KEEPTTL')
    return {'nothing'}
  end
  redis.call('SREM', keys.handed(a.hub), a.request)  -- also when that lease is over
  local freed = releases.take_back(a.request, slot, token, a.why)
  serving.opened()
  return freed and {'undone', freed, token} or {'nothing'}
end)
