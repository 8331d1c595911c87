-- Notifications: messages to hubs that listen to a channel.
local notifications = {}

-- Publish a message. In a cluster only the shard of the channel gets it: hubs listen on no other one.
function notifications.publish(channel, word)
  redis.call(store.in_cluster and 'SPUBLISH' or 'PUBLISH', channel, word)
end

-- Publish a message where some client listens: replicas are spared the messages that no client receives.
function notifications.tell(channel, word)
  local listening = redis.call('PUBSUB', store.in_cluster and 'SHARDNUMSUB' or 'NUMSUB', channel)
  if listening[2] > 0 then notifications.publish(channel, word) end
end

return notifications
