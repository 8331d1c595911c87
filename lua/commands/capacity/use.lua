-- Note that the holder of a lease uses its slot, or that it counts as used for a while. It does not extend the lease. Safe to repeat.
-- Returns {'ok', token, ms until the lease lapses, idle ms after which it ends or 0, ms until it ends by the rules or -1, by which or '',
--   ms for which it is paused} | {'over'} (there is no such lease, or there is a later one) | {'settling'} (the store was lost, and the
--   lease may yet be reported) | {'not-holder', holder, since when} (another caller's: nothing was done)
command.finish('capacity/use', {
  'slot',
  'token',
  'pause_ms',        -- for how long the slot counts as used, '0' to end that; '' to say that it is used now
  'max_ms: number',  -- longest time from when it was lent
  'by',              -- who calls, as `holders.is_foreign` says
}, function(a)
  local held, deadline = renewals.held(a.slot, a.token, a.by)
  if not held then return deadline end
  local r = lease_use.note(a.slot, tonumber(a.pause_ms), a.max_ms)
  local at, why = lease_limits.ending(r)
  return {'ok', held, math.floor(deadline - store.clock_ms), r.idle_ms, at and math.floor(at - store.clock_ms) or -1, why or '',
    math.max(0, math.floor((r.paused_ms or 0) - store.clock_ms))}
end)
