-- Read what has become of the tickets that a hub attends, in case a notification was lost; the call counts as a tick of the hub. Safe
-- to repeat. Returns a word per ticket: 'waiting' | 'granted' | 'gone' (it left the queue without a lease)
command.finish('queue/check', {
  'hub',  -- the calling hub
  '...tickets',
}, function(a, argv)
  if redis.call('EXISTS', keys.waiters(a.hub)) == 1 then redis.call('ZADD', keys.hubs, store.clock_ms, a.hub) end
  local words = {}
  for i = 2, #argv do
    local word = 'waiting'
    if redis.call('SISMEMBER', keys.waiters(a.hub), argv[i]) == 0 then
      word = redis.call('EXISTS', keys.request(argv[i])) == 1 and 'granted' or 'gone'
    end
    words[#words + 1] = word
  end
  return words
end)
