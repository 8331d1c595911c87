-- Move the next events of the history into the queues of the hooks that ask for them. The position in the history moves in the same
-- step, so no event is lost or put in twice, whichever hub calls and dies; a repeat moves the next ones.
-- Returns {'ok', events read, messages made, events trimmed away unread, messages dropped from full queues}
command.finish('hooks/relay', {
  'most: number',
}, function(a)
  local known = redis.call('ZRANGE', keys.hooks, 0, -1)
  if #known == 0 then return {'ok', 0, 0, 0, 0} end
  local events, lost = hooks.read(a.most)
  if #events == 0 then return {'ok', 0, 0, lost, 0} end
  local each, made, dropped, touched = {}, 0, 0, {}
  for i, id in ipairs(known) do
    local wants, label, user = unpack(redis.call('HMGET', keys.hook(id), 'wants', 'label', 'user'))
    each[i] = {id = id, wants = wants or '', label = label or '', user = user or ''}
  end
  for _, event in ipairs(events) do
    local of = {}
    for i = 1, #event[2], 2 do of[event[2][i]] = event[2][i + 1] end
    for _, hook in ipairs(each) do
      local some = hooks.offer(hook, event[1], event[2], of)
      if some > 0 then made, touched[hook.id] = made + some, true end
    end
  end
  for id in pairs(touched) do dropped = dropped + hooks.wake(id) end
  return {'ok', #events, made, lost, dropped}
end)
