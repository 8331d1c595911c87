-- Ends of bundles: leases that end because another of their bundle has ended, and slots that are set aside for no bundle any more.
local bundle_ends = {}

-- End what is left of a bundle whose leases end together; the holder is told, and has the grace of an operator's end.
function bundle_ends.end_rest(id)
  for _, each in ipairs(bundles.live(id)) do
    revocations.revoke(each[1], revocations.grace_ms(), 'bundle')
    releases.release(each[1], slots.read(each[1]), '120', 'grant.ended', 'bundle')
  end
end

-- Offer slots again that are set aside in vain: those that the reserver cannot use, and all where there is none.
function bundle_ends.end_reserve()
  local vain = redis.call('EXISTS', keys.reserver) == 1 and call_state.unneeded or redis.call('SMEMBERS', keys.reserved)
  for _, slot in ipairs(vain) do
    reserved_slots.drop(slot)
    placing.offer_again(slot)
  end
end

return bundle_ends
