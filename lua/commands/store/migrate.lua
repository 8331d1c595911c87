-- Note how far the store has come on its way to another format, or that it has that one from now on. Then it has another
-- generation as well: every hub opens it anew, and one that knows the format before alone finds that it may not. Of two
-- that go on from the same place one notes it. Safe to repeat.
-- Returns {'ok'} | {'other': somebody has noted something else since} | {'later': nodes have yet to report, to this generation}
command.change('store/migrate', {
  'was',             -- what stood there, '' for nothing
  'now',             -- what is to stand there, '' for nothing
  'format: number',  -- what the store has from now on
}, function(a)
  local said = redis.call('HMGET', keys.store, 'migrating', 'format', 'run_id')
  local before = tonumber(said[2] or '1')
  if (said[1] or '') ~= a.was or before > a.format then return {'other'} end
  if before < a.format then
    if store.hearing then return {'later'} end
    local generation = store.now_ms .. '-' .. said[3]
    redis.call('HSET', keys.store, 'format', a.format, 'generation', generation)
    store.open_as(generation, store.in_cluster)
  end
  if a.now == '' then
    redis.call('HDEL', keys.store, 'migrating')
  else
    redis.call('HSET', keys.store, 'migrating', a.now)
  end
  return {'ok'}
end)
