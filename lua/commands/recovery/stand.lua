-- Become or stay the leader of a source: of the hubs that declare the source one makes the passes, as long as it ticks. Also notes that
-- the source is declared; a source that no hub has declared for `keep_ms` is forgotten. Safe to repeat. Returns {'ok'} (this hub is the
-- leader) | {'taken', the leader}
command.change('recovery/stand', {
  'source',
  'hub_id',           -- the calling hub
  'keep_ms: number',  -- how long a source is known after its last declaration
}, function(a)
  local known = redis.call('HGET', keys.zombie_sources, a.source)
  if not known then
    local all = redis.call('HGETALL', keys.zombie_sources)
    for i = 1, #all, 2 do
      if store.now_ms - (tonumber(string.match(all[i + 1], '%d+$')) or 0) > a.keep_ms then
        redis.call('HDEL', keys.zombie_sources, all[i])
      end
    end
  end
  local since_ms = known and string.match(known, '^%d+') or string.format('%.0f', store.now_ms)
  redis.call('HSET', keys.zombie_sources, a.source, since_ms .. ' ' .. string.format('%.0f', store.now_ms))
  local leader = keys.zombie_leader(a.source)
  local holder = redis.call('GET', leader)
  if holder and holder ~= a.hub_id and hubs.is_heard(holder) then return {'taken', holder} end
  redis.call('SET', leader, a.hub_id, 'PX', a.keep_ms)
  return {'ok'}
end)
