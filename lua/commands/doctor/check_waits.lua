-- Check whether a pool has a slot that could be lent beside a live waiter who may have it. Changes nothing.
-- Returns per pool {} | {'waited for'}
command.read('doctor/check_waits', {
  '...pools',
}, function(_, argv)
  local function lendable(pool)
    for _, item in ipairs(redis.call('LRANGE', keys.available(pool), 0, 19)) do
      local record = redis.call('HMGET', keys.slot(items.glance(item) or ''), 'item', 'node', 'reported', 'part')
      if record[1] == item and not suspects.is_suspect(record[2], record[4], record[3]) then return true end
    end
  end
  local function attended(label)
    local hub = redis.call('HGET', keys.ticket(redis.call('ZRANGE', keys.queue(label), 0, 0)[1] or ''), 'hub')
    local heard = hub and redis.call('ZSCORE', keys.hubs, hub)
    return heard and store.clock_ms - tonumber(heard) <= hubs.SILENT_MS
  end
  local answers = {}
  for i = 1, #argv do
    local pool, found = argv[i], nil
    if store.settle_left_ms <= 0 and redis.call('EXISTS', keys.maintenance(pool)) == 0 then
      local label = waiters.next_label(pool)
      found = label and not caps.reached(label) and attended(label) and lendable(pool)
    end
    answers[i] = found and {'waited for'} or {}
  end
  return answers
end)
