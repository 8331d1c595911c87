-- Notifications: what is said to those who listen to a channel.
local notifications = {}

-- In a cluster the shard of the hub alone is told: nobody listens on another one.
function notifications.publish(channel, word)
  redis.call(store.in_cluster and 'SPUBLISH' or 'PUBLISH', channel, word)
end

-- As `publish`, of what hardly anybody listens to: replicas are not told of every message that is for nobody.
function notifications.tell(channel, word)
  local listening = redis.call('PUBSUB', store.in_cluster and 'SHARDNUMSUB' or 'NUMSUB', channel)
  if listening[2] > 0 then notifications.publish(channel, word) end
end

return notifications
