-- How many tickets of a run are in line, over all hubs; nil when there are too many waiters to count them in one go.
local function waiters_of(run)
  local count, looked = 0, 0
  for _, hub in ipairs(redis.call('ZRANGE', key_hubs, 0, -1)) do
    looked = looked + redis.call('SCARD', key_waiters(hub))
    if looked > 2000 then return nil end
    for _, ticket in ipairs(redis.call('SMEMBERS', key_waiters(hub))) do
      local t = redis.call('HMGET', key_ticket(ticket), 'run', 'label')
      if t[1] == run and redis.call('ZSCORE', key_line(t[2]), ticket) then count = count + 1 end
    end
  end
  return count
end
