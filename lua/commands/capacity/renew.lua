-- Extend a lease to ttl_ms from now, but not beyond max_ms from when it was lent, nor the longest hold of its pool, and never shorten it.
-- Safe to repeat.
-- Returns {'ok', token, ms left} | {'not-holder', holder, since when} (another caller's: nothing was done)
--   | {'over'} (there is no such lease, there is a later one, or its deadline has passed)
--   | {'settling'} (the store was lost, and hubs or nodes may yet report the lease or its end; a lease that the store knows is extended
--   all the same)
command.finish('capacity/renew', {
  'slot',
  'token',           -- '' when the caller has none
  'ttl_ms: number',  -- negative: unless the rule of its pool says otherwise
  'max_ms: number',  -- longest time from when it was lent
  'by',              -- who calls, as `holders.is_foreign` says
}, function(a) return renewals.renew(a.slot, a.token, a.ttl_ms, a.max_ms, a.by) end)
