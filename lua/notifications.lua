-- Notifications: what is said to those who listen to a channel.
local notifications = {}

-- In a cluster the shard of the hub alone is told: nobody listens on another one.
function notifications.publish(channel, word)
  redis.call(store.in_cluster and 'SPUBLISH' or 'PUBLISH', channel, word)
end

return notifications
