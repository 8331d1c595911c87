-- End all live leases of a bundle that the caller holds, because it gives them back. Safe to repeat: then nothing is left to end.
-- Returns {'returned', {slot, token, ...}} (those that have ended by this call) | {'settling'} (the store was lost, and hubs or nodes may
--   yet report them) | {'not-holder', holder, since when, ''} (another caller's: nothing was done)
command.finish('capacity/return_bundle', {
  'bundle',
  'by',  -- who calls, as `holders.is_foreign` says
}, function(a)
  local ended, refusal = {}, nil
  for _, each in ipairs(bundles.live(a.bundle)) do
    local record = slots.read(each[1])
    if holders.is_foreign(a.by, redis.call('HGET', keys.session(each[1]), 'holder'), true) then
      refusal = holders.refusal(each[1])
    elseif record.place == 'lent' then
      record.token = each[2]
      releases.release(each[1], record, '120', 'grant.returned', '')
      ended[#ended + 1], ended[#ended + 2] = each[1], each[2]
    end
  end
  if not ended[1] and (refusal or store.settle_left_ms > 0 or reports.is_bundle_missing(a.bundle)) then return refusal or {'settling'} end
  bundles.note_ended(a.bundle)
  serving.opened()
  return {'returned', ended}
end)
