-- Agree on the settings that all hubs share. Where hubs were given different settings, those of the first hub hold until all hubs that
-- tick were given the same. Written only when something is new. Safe to repeat.
-- Returns {the settings in force as JSON, then what an operator has set over them: a JSON text per setting of shared.NAMES, '' for
--   none}
command.finish('queue/agree', {
  'hub',    -- '' of a program that is no hub: its settings never replace those in force
  'given',  -- settings as JSON, the same text for equal settings
}, function(a)
  local holds, before = unpack(redis.call('HMGET', keys.store, 'shared', 'given:' .. a.hub))
  if a.hub ~= '' and before ~= a.given then redis.call('HSET', keys.store, 'given:' .. a.hub, a.given) end
  if not holds or (a.hub ~= '' and (holds ~= a.given or before ~= a.given)) then
    local all = shared.all_given(a.given)
    if not holds or (all and holds ~= a.given) then
      holds = a.given
      redis.call('HSET', keys.store, 'shared', holds)
      if shared.apply() then
        class_listings.list_anew()
        team_listings.list_anew()
      end
    end
  end
  local answer = {holds}
  for _, said in ipairs(shared.set()) do answer[#answer + 1] = said or '' end
  return answer
end)
