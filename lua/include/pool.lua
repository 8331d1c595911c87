-- The indexes of a pool label: all pools that have slots, and per number of segments those with free ones.
-- `open_pool` returns whether it was not among them.
local function open_pool(label)
  local _, colons = string.gsub(label, ':', '')
  return redis.call('ZADD', key_open_pools(colons + 1), 0, label) == 1
end
local function close_pool(label)
  local _, colons = string.gsub(label, ':', '')
  redis.call('ZREM', key_open_pools(colons + 1), label)
end
