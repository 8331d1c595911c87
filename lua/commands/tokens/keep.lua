-- Note that a token that a node made for itself was shown: it is kept for keep_ms from now, if its node has registered. Safe to repeat.
-- Returns {'ok'}
command.finish('tokens/keep', {
  'id',               -- id of the token
  'keep_ms: number',  -- how long it is kept without being shown
}, function(a)
  if not tokens.is_joining(a.id) then redis.call('ZADD', keys.joined, 'XX', store.clock_ms + a.keep_ms, a.id) end
  return {'ok'}
end)
