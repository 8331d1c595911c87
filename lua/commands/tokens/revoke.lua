-- Forget a token: a caller that shows it is a stranger from now on. Returns {'ok'} | {'unknown'}
command.finish('tokens/revoke', {
  'id',
  'bar_ms: number',  -- for how long no node joins under its name, 0: at once
}, function(a)
  local known, part = tokens.drop(a.id)
  if known and part ~= '' and a.bar_ms > 0 then redis.call('SET', keys.barred(part), '', 'PX', a.bar_ms) end
  return {known and 'ok' or 'unknown'}
end)
