-- @include turns
-- @include ended
local headroom = {}  -- labels that were waited for while a grant under them ended: serve_opened looks at them again

-- End the grant of a slot: session, deadline, footprints, mappings, the in-flight count of the label it was asked for.
-- Where the slot goes is the caller's.
local function end_grant(slot, label, run, part)
  if hearing then note_ended(slot, redis.call('HGET', key_session(slot), 'leaseToken')) end
  redis.call('DEL', key_session(slot), key_borrow_ttl(slot), key_borrow_idle(slot), key_browser_run(slot),
    key_browser_test(slot))
  redis.call('ZREM', key_deadlines, slot)
  if label then
    redis.call('ZREM', key_asked(label), slot)
    if somebody_waits() and redis.call('ZSCORE', key_turns, label) then
      reoffer(label)
      headroom[#headroom + 1] = label
    end
  end
  if run and run ~= '' then redis.call('ZREM', key_run(run), slot) end
  if part then
    redis.call('HDEL', key_lent(part), slot)
    redis.call('HINCRBY', key_duty(part), 'version', 1)
  end
end

-- Ask the node to replace a slot; it hears of it with its next beat, or finds the marker itself.
local function mark_recycle(slot, part, seconds)
  redis.call('SET', key_recycle(slot), '1', 'EX', seconds)
  if part then redis.call('HSET', key_duty(part), 'recycle:' .. slot, '1') end
end
