-- Set a setting that all hubs share, over the value that the hubs were given, or clear what was set. Safe to repeat. Returns {'ok'}
command.change('queue/set_shared', {
  'name',   -- one of shared.NAMES
  'value',  -- JSON; '' for the value that the hubs agree on
  'by',     -- the caller who sets it
}, function(a)
  local field = 'set:' .. a.name
  if a.value == '' then
    redis.call('HDEL', keys.store, field)
  else
    local by, at = cjson.encode(a.by), times.text(store.now_ms)
    redis.call('HSET', keys.store, field, '{"value":' .. a.value .. ',"by":' .. by .. ',"at":"' .. at .. '"}')
  end
  if shared.apply() then
    class_listings.list_anew()
    team_listings.list_anew()
  end
  return {'ok'}
end)
