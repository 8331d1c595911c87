-- Agree on the settings of all hubs. Where hubs were given different ones, those of the first hub hold, until every hub that
-- ticks was given the same; `given` is the same text for the same settings. Safe to repeat, and written only when it is new. Returns
-- {what they agree on, then what an operator has set over it: a text per setting, '' for nothing}
command.change('queue/agree', {
  'hub',    -- '' of a command that is no hub: it overrules none
  'given',  -- settings as JSON
}, function(a)
  local holds, before = unpack(redis.call('HMGET', keys.store, 'shared', 'given:' .. a.hub))
  if a.hub ~= '' and before ~= a.given then redis.call('HSET', keys.store, 'given:' .. a.hub, a.given) end
  if not holds or (a.hub ~= '' and (holds ~= a.given or before ~= a.given)) then
    local all = shared.all_given(a.given)
    if not holds or (all and holds ~= a.given) then
      holds = a.given
      redis.call('HSET', keys.store, 'shared', holds)
      shared.apply()
    end
  end
  local answer = {holds}
  for _, said in ipairs(shared.set()) do answer[#answer + 1] = said or '' end
  return answer
end)
