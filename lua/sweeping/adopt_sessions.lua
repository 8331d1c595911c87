-- Take sessions that another program wrote into the leases: their footprint becomes their deadline. One without a
-- footprint is over, and the lease sweep ends it; one without a label is deleted.
-- Returns per slot: 'known' | 'adopted' | 'over' | 'stray' | 'gone'
local ttl_ms = tonumber(ARGV[1])     -- the lease of a footprint without an expiry
-- @rest slots
-- @include store
-- @include history
local words = {}
for i = 2, #ARGV do
  local slot = ARGV[i]
  local session = redis.call('HMGET', key_session(slot), 'labelKey', 'runId', 'leaseToken', 'nodeId')
  local word
  if redis.call('ZSCORE', key_deadlines, slot) then
    word = 'known'
  elseif redis.call('EXISTS', key_session(slot)) == 0 then
    word = 'gone'
  elseif not session[1] or session[1] == '' then
    redis.call('DEL', key_session(slot))
    word = 'stray'
  else
    local left_ms = redis.call('PTTL', key_borrow_ttl(slot))
    if left_ms == -1 then left_ms = ttl_ms end
    word = left_ms > 0 and 'adopted' or 'over'
    redis.call('ZADD', key_deadlines, clock_ms + math.max(0, left_ms), slot)
    redis.call('ZADD', key_asked(session[1]), now_ms, slot)
    if session[2] and session[2] ~= '' then redis.call('ZADD', key_run(session[2]), now_ms, slot) end
    note_slot('grant.adopted', {slot = slot, node = session[4], label = session[1], run = session[2]}, 'foreign')
    local part = redis.call('HGET', key_slot(slot), 'part')
    if part then
      redis.call('HSET', key_slot(slot), 'place', 'lent', 'label', session[1], 'run', session[2] or '', 'granted_ms',
        clock_ms, 'visible_ms', now_ms + left_ms, 'watch_idle', 0)
      redis.call('HSET', key_lent(part), slot, session[3] or '')
    end
  end
  words[#words + 1] = word
end
return words
