-- Delete a token: a caller that shows it is refused from now on. Returns {'ok'} | {'unknown'} (there is no such token)
command.finish('tokens/revoke', {
  'id',              -- id of the token
  'bar_ms: number',  -- for how long no node can join under the id of its node, 0 for no time
}, function(a)
  local known, part = tokens.drop(a.id)
  if known and part ~= '' and a.bar_ms > 0 then redis.call('SET', keys.barred(part), '', 'PX', a.bar_ms) end
  return {known and 'ok' or 'unknown'}
end)
