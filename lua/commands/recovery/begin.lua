-- Take or keep the turn at the records of a source, so that one hub at a time cleans the source. A hub that no longer ticks loses its
-- turn. Safe to repeat: the holder gets it again. Returns {'ok'} | {'taken', the hub that has it}
command.change('recovery/begin', {
  'source',
  'hub_id',   -- the calling hub
  'pass_id',  -- id of the pass
  'ttl_ms',   -- how long the turn lasts, unless it is kept
}, function(a)
  local turn = keys.zombie_turn(a.source)
  local mine = a.hub_id .. ' ' .. a.pass_id
  local holder = redis.call('GET', turn)
  if holder and holder ~= mine then
    local hub = string.match(holder, '^%S*')
    if hubs.is_heard(hub) then return {'taken', hub} end
  end
  redis.call('SET', turn, mine, 'PX', a.ttl_ms)
  return {'ok'}
end)
