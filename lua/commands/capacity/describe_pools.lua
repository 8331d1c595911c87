-- Look at pools; one whose maintenance is over is opened again.
-- Returns per pool: {published, free, lent, 1 | 0 (under maintenance), free at its start, lent at its start}
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
