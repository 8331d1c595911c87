-- Note what became of the messages of a turn, and end the turn. Delivered ones leave the queue, also when the turn is over; each other
-- one is tried again later, twice as late each time, up to an hour. A hook that has refused a message for a day is paused, and one that
-- is gone at once. Safe to repeat.
-- Returns {'ok', why it was paused now or ''} | {'over'} (the turn had ended before) | {'unknown'} (there is no such hook)
command.finish('hooks/settle', {
  'id',
  'turn',
  'first_ms: number',  -- pause before the second try of a message
  'day_ms: number',    -- for how long a message is tried
  'gone',              -- why the hook is to be paused at once, or ''
  '...results',        -- message and what came of it, 'ok' for a delivered one
}, function(a, argv)
  if not redis.call('ZSCORE', keys.hooks, a.id) then return {'unknown'} end
  local is_mine, delivered, failed, paused = redis.call('HGET', keys.hook(a.id), 'turn') == a.turn, 0, 0, a.gone
  for i = 6, #argv, 2 do
    local message, said = argv[i], argv[i + 1]
    if said == 'ok' then
      delivered = delivered + redis.call('XDEL', keys.hook_queue(a.id), message)
      redis.call('HDEL', keys.hook_tries(a.id), message)
    elseif is_mine then
      failed = failed + 1
      local before = redis.call('HGET', keys.hook_tries(a.id), message) or '0 0 ' .. numbers.digits(store.clock_ms)
      local tries, since_ms = string.match(before, '^(%d+) %d+ (%d+)')
      local due_ms = math.floor(store.clock_ms + math.min(3600000, a.first_ms * 2 ^ tonumber(tries)))
      redis.call('HSET', keys.hook_tries(a.id), message, (tries + 1) .. ' ' .. numbers.digits(due_ms) .. ' ' .. since_ms)
      if store.clock_ms - since_ms >= a.day_ms and paused == '' then paused = 'it took no message for a day: ' .. said end
    end
    redis.call('HSET', keys.hook(a.id), 'last', said, 'last_at', times.text(store.now_ms))
  end
  redis.call('HINCRBY', keys.hook(a.id), 'delivered', delivered)
  redis.call('HINCRBY', keys.hook(a.id), 'failed', failed)
  if not is_mine then return {'over'} end
  redis.call('HDEL', keys.hook(a.id), 'turn', 'turn_ms')
  if paused ~= '' then
    redis.call('HSET', keys.hook(a.id), 'paused', paused)
    redis.call('HSET', keys.hooks_paused, a.id, paused)
  end
  if redis.call('HEXISTS', keys.hook(a.id), 'paused') == 1 then
    redis.call('ZREM', keys.hooks_due, a.id)
  else
    redis.call('ZADD', keys.hooks_due, store.clock_ms, a.id)
  end
  return {'ok', paused}
end)
