-- Look at some nodes whose slots are held back because they were suspect: those that are no longer, because they beat by
-- writing their alive key or have had their time to report, are lent from again. Safe to repeat. Returns {'ok'}
command.change('nodes/resume', {}, function()
  for _, node in ipairs(redis.call('SRANDMEMBER', keys.suspects, 20)) do
    local part = ids.key_part(node)
    if redis.call('EXISTS', keys.aside(part)) == 0 then
      redis.call('SREM', keys.suspects, node)
      redis.call('HDEL', keys.orders(part), 'suspect')
    elseif not suspects.is_suspect(node, part, store.generation) and not store.reporting then
      placing.resume(node, part)
    end
  end
  serving.opened()
  return {'ok'}
end)
