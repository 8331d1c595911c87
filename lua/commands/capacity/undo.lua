-- Undo an attempt whose caller is gone or has waited long enough: take back its lease, which goes to the next waiter, or take its
-- ticket out of the queue, which keeps its place for a while if it has an idempotency key. A lease stays while another attempt got it
-- too: the caller of that one may use it. An attempt that has not reached the store yet is refused when it does. Safe to repeat.
-- Returns {'undone', slot, token, ...} (of a bundle several) | {'granted'} (the lease is left alone)
--   | {'left', 'away' | 'dropped'} (the ticket left the queue and keeps its place or was deleted)
--   | {'nothing'} (nothing was undone: it holds nothing, or other attempts have the lease too)
--   | {'elsewhere', realm, request, slot, token} (it was served in another realm, which has to take the lease back)
command.finish('capacity/undo', {
  'request',  -- request id
  'attempt',  -- id of the call whose caller is gone
  'hub',      -- the hub that answered the caller
  'why',      -- 'gone' | 'timeout' | 'stopping'; a lease is taken back only for 'gone'
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
    if not t.label or t.attempt ~= a.attempt then return {'nothing'} end
    local how = tickets.set_aside(t, a.why)
    serving.opened()
    return {'left', how}
  end
  if not owns then return {'nothing'} end
  local others = attempts.others(owners, a.attempt)
  if others ~= '' then
    redis.call('SET', keys.request(a.request), table.concat({asked, slot, token, others}, '|'), 'KEEPTTL')
    return {'nothing'}
  end
  redis.call('SREM', keys.handed(a.hub), a.request)  -- also when the lease is over
  local freed = releases.take_back(a.request, slot, token, a.why)
  serving.opened()
  return freed and {'undone', unpack(freed)} or {'nothing'}
end)
