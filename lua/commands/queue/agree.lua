-- Which node timeout holds for all hubs: that of the first of them, until all that are heard want another one. Safe to
-- repeat. Returns the node timeout in ms that holds
command.change('queue/agree', {
  'hub',
  'mine',  -- the node timeout that this hub was given, ms
}, function(a)
  redis.call('HSET', keys.store, 'wants:' .. a.hub, a.mine)
  local agreed = true
  for _, field in ipairs(redis.call('HKEYS', keys.store)) do
    local other = string.match(field, '^wants:(.+)$')
    if other and other ~= a.hub and not hubs.is_heard(other) then
      redis.call('HDEL', keys.store, field)
    elseif other and redis.call('HGET', keys.store, field) ~= a.mine then
      agreed = false
    end
  end
  if agreed or not store.node_timeout_ms then
    store.node_timeout_ms = a.mine
    redis.call('HSET', keys.store, 'timeout_ms', a.mine)
  end
  return tonumber(store.node_timeout_ms)
end)
