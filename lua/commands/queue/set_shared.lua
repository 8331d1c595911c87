-- Set one of the settings that all hubs share, over the one they were given, or clear what was set. Safe to repeat.
-- Returns {'ok'}
command.change('queue/set_shared', {
  'name',   -- one of shared.NAMES
  'value',  -- JSON; '' to go back to what the hubs agree on
  'by',
}, function(a)
  local field = 'set:' .. a.name
  if a.value == '' then
    redis.call('HDEL', keys.store, field)
  else
    local by, at = cjson.encode(a.by), times.text(store.now_ms)
    redis.call('HSET', keys.store, field, '{"value":' .. a.value .. ',"by":' .. by .. ',"at":"' .. at .. '"}')
  end
  shared.apply()
  return {'ok'}
end)
