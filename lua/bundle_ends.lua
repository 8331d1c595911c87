-- Ends of bundles: leases that end because another of their bundle has ended.
local bundle_ends = {}

-- End what is left of a bundle whose leases end together; the holder is told, and has the grace of an operator's end.
function bundle_ends.end_rest(id)
  for _, each in ipairs(bundles.live(id)) do
    revocations.revoke(each[1], revocations.grace_ms(), 'bundle')
    releases.release(each[1], slots.read(each[1]), '120', 'grant.ended', 'bundle')
  end
end

return bundle_ends
