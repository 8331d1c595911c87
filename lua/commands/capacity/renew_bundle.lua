-- Extend all live leases of a bundle that the caller holds, each as capacity/renew does. Safe to repeat.
-- Returns {'ok', {slot, token, ms left, ...}} (those that are live) | {'over'} (none is) | {'settling'} (the store was lost, and hubs or
--   nodes may yet report them) | {'not-holder', holder, since when, ''} (another caller's: nothing was done)
command.finish('capacity/renew_bundle', {
  'bundle',
  'ttl_ms: number',  -- negative: unless the rules of the pools say otherwise
  'max_ms: number',  -- longest time from when they were lent
  'by',              -- who calls, as `holders.is_foreign` says
}, function(a)
  local done, settling, refusal = {}, store.settle_left_ms > 0, nil
  for _, each in ipairs(bundles.live(a.bundle)) do
    local reply = renewals.renew(each[1], each[2], a.ttl_ms, a.max_ms, a.by)
    if reply[1] == 'not-holder' then refusal = reply end
    if reply[1] == 'ok' then
      for _, fact in ipairs({each[1], reply[2], reply[3]}) do done[#done + 1] = fact end
    end
  end
  if settling then return {'settling'} end
  if not done[1] and reports.is_bundle_missing(a.bundle) then return refusal or {'settling'} end
  return done[1] and {'ok', done} or refusal or {'over'}
end)
