-- The settings that all hubs share: those that the hubs were given, and what an operator has set over them.
local shared = {}

shared.NAMES = {'timeout_ms', 'trailing', 'prefix', 'wildcards', 'default', 'caps', 'grace_ms'}

-- Return what an operator has set: a JSON text for each of NAMES, false where nothing is set.
function shared.set()
  local fields = {}
  for i, name in ipairs(shared.NAMES) do fields[i] = 'set:' .. name end
  return redis.call('HMGET', keys.store, unpack(fields))
end

-- Return whether every hub that ticks was given these settings. What was noted of hubs that tick no more is deleted.
function shared.all_given(given)
  local all, fields = true, redis.call('HGETALL', keys.store)
  for i = 1, #fields, 2 do
    local hub = string.match(fields[i], '^given:(.+)$')
    if hub and fields[i + 1] ~= given then
      if hubs.is_heard(hub) then all = false else redis.call('HDEL', keys.store, fields[i]) end
    end
  end
  return all
end

-- Write the settings in force (what an operator has set, else what the hubs agree on) into the fields that other commands read. Returns
-- whether labels match pools in another way than before.
function shared.apply()
  local agreed = cjson.decode(redis.call('HGET', keys.store, 'shared'))
  for i, said in ipairs(shared.set()) do
    if said then agreed[shared.NAMES[i]] = cjson.decode(said).value end
  end
  local options = ''
  for _, name in ipairs({'trailing', 'prefix', 'wildcards'}) do options = options .. (agreed[name] and '1' or '0') end
  redis.call('HSET', keys.store, 'options', options, 'timeout_ms', agreed.timeout_ms, 'grace_ms', agreed.grace_ms)
  for _, field in ipairs(redis.call('HKEYS', keys.caps)) do
    if field == 'env' or string.sub(field, 1, 4) == 'env:' then redis.call('HDEL', keys.caps, field) end
  end
  if agreed.default > 0 then redis.call('HSET', keys.caps, 'env', agreed.default) end
  for _, cap in ipairs(agreed.caps) do redis.call('HSET', keys.caps, 'env:' .. cap[1], cap[2]) end
  caps.note()
  local changed = store.options ~= options
  store.options, store.trailing, store.prefix, store.wildcards = options, string.match(options, '(.)(.)(.)')
  return changed
end

return shared
