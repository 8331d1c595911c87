-- Ends of bundles: leases that end because another of their bundle has ended, and slots that are set aside in vain.
local bundle_ends = {}

local MOST = 48  -- leases that are ended in one call, which takes some 5 ms

-- End some of the leases whose bundles are torn; their holders are told, and have the grace of an operator's end.
function bundle_ends.end_torn()
  local ended = 0
  while ended < MOST do
    local id = redis.call('LPOP', keys.torn)
    if not id then return end
    local live = bundles.live(id)
    bundles.note_ended(id)
    for _, each in ipairs(live) do
      local record = slots.read(each[1])
      revocations.revoke(each[1], revocations.grace_ms(), 'bundle')
      if record.place == 'lent' then releases.release(each[1], record, '120', 'grant.ended', 'bundle') end
    end
    redis.call('LREM', keys.torn, 0, id)  -- the ends of its leases have noted it again
    redis.call('DEL', keys.bundle(id))
    ended = ended + #live
  end
end

-- Offer slots again that are set aside in vain: those that the reserver cannot use, and all where there is none.
function bundle_ends.offer_unused()
  local vain = redis.call('EXISTS', keys.reserver) == 1 and call_state.unneeded or redis.call('SMEMBERS', keys.reserved)
  for _, slot in ipairs(vain) do
    reserved_slots.drop(slot)
    placing.offer_again(slot)
  end
end

return bundle_ends
