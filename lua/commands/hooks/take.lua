-- Give a hub the turn at the hook that is due longest, with messages to deliver now: of each object the first that waits, unless it is
-- to be tried later. So messages of an object go out one after the other. A turn that is not ended by hooks/settle ends by itself, and
-- the messages are given out again: a repeat of this call leaves those of the first to that.
-- Returns {'none'} | {'ok', hook, url, format, secret, {id, {field, value, ...}} per message}
command.finish('hooks/take', {
  'turn',             -- id of the turn
  'turn_ms: number',  -- how long it lasts at most
  'most: number',     -- messages
  'rate: number',     -- messages a second, of all hooks and hubs
}, function(a)
  local second, sent = math.floor(store.now_ms / 1000), redis.call('HMGET', keys.store, 'hooks_second', 'hooks_sent')
  local left = sent[1] == tostring(second) and a.rate - tonumber(sent[2]) or a.rate
  local most = math.min(a.most, left)
  if most <= 0 then return {'none'} end
  for _, id in ipairs(redis.call('ZRANGE', keys.hooks_due, '-inf', store.clock_ms, 'BYSCORE', 'LIMIT', 0, 100)) do
    local hook = redis.call('HMGET', keys.hook(id), 'url', 'format', 'secret', 'paused')
    local waiting, tries, seen = redis.call('XRANGE', keys.hook_queue(id), '-', '+', 'COUNT', 200), {}, {}
    local said = redis.call('HGETALL', keys.hook_tries(id))
    for i = 1, #said, 2 do tries[said[i]] = tonumber(string.match(said[i + 1], '^%d+ (%d+)')) end
    local picked, due_ms = {}, nil
    for _, message in ipairs(waiting) do
      local object, tried_ms = message[2][6], tries[message[1]]
      if not seen[object] and tried_ms and tried_ms > store.clock_ms then
        due_ms = math.min(due_ms or tried_ms, tried_ms)
      elseif not seen[object] and #picked < most then
        picked[#picked + 1] = message
      end
      seen[object], tries[message[1]] = true, nil
    end
    for gone in pairs(tries) do redis.call('HDEL', keys.hook_tries(id), gone) end  -- dropped from a full queue
    if #picked > 0 and hook[1] and not hook[4] then
      redis.call('HSET', keys.store, 'hooks_second', second, 'hooks_sent', a.rate - left + #picked)
      redis.call('HSET', keys.hook(id), 'turn', a.turn, 'turn_ms', numbers.digits(store.clock_ms + a.turn_ms))
      redis.call('ZADD', keys.hooks_due, store.clock_ms + a.turn_ms, id)
      return {'ok', id, hook[1], hook[2], hook[3], unpack(picked)}
    end
    if due_ms and hook[1] and not hook[4] then
      redis.call('ZADD', keys.hooks_due, due_ms, id)
    else
      redis.call('ZREM', keys.hooks_due, id)
    end
  end
  return {'none'}
end)
