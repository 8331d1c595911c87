-- What holds for all hubs: how labels are matched, when a node is suspect, the caps of the environment. Safe to repeat.
-- Returns {'ok'} | {'kept'} (another hub has said it already)
command.change('queue/configure', {
  'options',     -- trailing fallback, prefix expansion, wildcards: '1' or '0' each
  'timeout_ms',  -- of nodes
  'default',     -- the cap of labels without one of their own, 0 for none
  'over',        -- '1': also when another hub has said something else
  'grace_ms',    -- how long the holder of a grant that ended early may still believe in it
  '...caps',     -- label, cap, ...
}, function(a, argv)
  if store.options and a.over ~= '1' then return {'kept'} end
  redis.call('HSET', keys.store, 'options', a.options, 'timeout_ms', a.timeout_ms, 'grace_ms', a.grace_ms)
  for _, field in ipairs(redis.call('HKEYS', keys.caps)) do
    if field == 'env' or string.sub(field, 1, 4) == 'env:' then redis.call('HDEL', keys.caps, field) end
  end
  if a.default ~= '0' then redis.call('HSET', keys.caps, 'env', a.default) end
  for i = 6, #argv, 2 do redis.call('HSET', keys.caps, 'env:' .. argv[i], argv[i + 1]) end
  caps.note()
  return {'ok'}
end)
