-- Look at 20 nodes whose slots are held back because they were suspect, and offer the slots of those that are not suspect any more:
-- they stay alive by writing their alive key, or have had their time to report. Safe to repeat. Returns {'ok'}
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
