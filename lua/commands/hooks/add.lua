-- Add a hook; the first one begins the reading of the history. Safe to repeat: the same facts change nothing.
-- Returns {'ok'} | {'taken'} (another hook has this id) | {'full'} (there are `most` already)
command.change('hooks/add', {
  'id',            -- the first hex digits of the digest of its secret
  'url',
  'on',            -- types of messages, separated by commas
  'wants',         -- the same for lua/hooks.lua: event=type, separated by blanks
  'label',         -- a pattern of labels, '' for all
  'user',          -- name of a user, '' for all
  'format',
  'secret',        -- signs the messages
  'by',            -- the credential that added it
  'most: number',
}, function(a)
  local was = redis.call('HMGET', keys.hook(a.id), 'secret', 'url', 'on', 'label', 'user', 'format')
  if was[1] then
    local same = was[1] == a.secret and was[2] == a.url and was[3] == a.on and was[4] == a.label and was[5] == a.user
    return {same and was[6] == a.format and 'ok' or 'taken'}
  end
  local number = redis.call('ZCARD', keys.hooks)
  if number >= a.most then return {'full'} end
  if number == 0 then hooks.begin() end
  redis.call('HSET', keys.hook(a.id), 'url', a.url, 'on', a.on, 'wants', a.wants, 'label', a.label, 'user', a.user, 'format', a.format,
    'secret', a.secret, 'by', a.by, 'at', times.text(store.now_ms))
  redis.call('ZADD', keys.hooks, store.next_us(), a.id)
  return {'ok'}
end)
