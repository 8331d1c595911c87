-- Add the leases that have ended to the figures of their days, and borrows that hubs have refused. Whatever is added is taken off the
-- list in the same step, so each lease counts once, whichever hubs call and however late. While the store settles nothing is added: hubs
-- are giving back the figures that were lost. Safe to repeat: refusals with a number that the hub has told before count nothing.
-- Returns {'ok', leases added, leases left} | {'settling'}
command.finish('usage/fold', {
  'limit: number',  -- most leases in this call
  'days: number',   -- for how many days figures are kept
  'most: number',   -- most names of a day and kind; further ones are counted together
  'hub',            -- the calling hub
  'number',         -- number of the refusals, which only rises in a hub; '0' for none
  '...refusals',    -- each: label, team, user, count
}, function(a, argv)
  if store.settle_left_ms > 0 then return {'settling'} end
  local added, ended = {}, lenient.call(nil, 'LPOP', keys.usage_ended, a.limit) or {}
  for _, entry in ipairs(ended) do usage_days.add_lease(added, entry, a.days) end
  if a.number ~= '0' and numbers.above(a.number, redis.call('GET', keys.usage_told(a.hub)) or '0') then
    redis.call('SET', keys.usage_told(a.hub), a.number, 'EX', keys.seconds.usage_told)
    for i = 6, #argv, 4 do usage_days.add_refusals(added, argv[i], argv[i + 1], argv[i + 2], tonumber(argv[i + 3])) end
  end
  usage_days.write(added, a.days, a.most)
  return {'ok', #ended, lenient.call(0, 'LLEN', keys.usage_ended)}
end)
