-- Notifications: what is said to those who listen to a channel.
local notifications = {}

-- In a cluster the shard of the hub alone is told: no hub listens on another one.
function notifications.publish(channel, word)
  redis.call(store.in_cluster and 'SPUBLISH' or 'PUBLISH', channel, word)
end

-- Publish to a channel that few listen to: replicas are spared the messages that no client receives.
function notifications.tell(channel, word)
  local listening = redis.call('PUBSUB', store.in_cluster and 'SHARDNUMSUB' or 'NUMSUB', channel)
  if listening[2] > 0 then notifications.publish(channel, word) end
end

return notifications
