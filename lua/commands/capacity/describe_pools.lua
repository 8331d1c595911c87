-- Read pools, and end the maintenance of those for which it is over.
-- Returns per pool {published slots, free, lent, 1 | 0 (under maintenance), free and lent slots at the start of the maintenance}
command.finish('capacity/describe_pools', {
  '...pools',
}, function(_, argv)
  local answers = {}
  for i = 1, #argv do
    local pool = argv[i]
    local active = pools.under_maintenance(pool)
    answers[i] = {lenient.call(0, 'SCARD', keys.pool_slots(pool)), lenient.call(0, 'LLEN', keys.available(pool)),
      lenient.call(0, 'LLEN', keys.inuse(pool)), active and 1 or 0,
      tonumber(lenient.call('0', 'GET', keys.maintenance_free(pool)) or '0') or 0,
      tonumber(lenient.call('0', 'GET', keys.maintenance_lent(pool)) or '0') or 0}
  end
  serving.opened()
  return answers
end)
