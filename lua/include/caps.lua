-- @include store
-- The most live grants of a label, 0 for no limit; a value set at run time wins over one from the environment.
local function cap_of(label)
  if opened[10] ~= '1' then return 0 end
  local caps = redis.call('HMGET', key_caps, 'set:' .. label, 'env:' .. label, 'set', 'env')
  return tonumber(caps[1] or caps[2] or caps[3] or caps[4] or '0')
end
local function capped(label)
  local cap = cap_of(label)
  return cap > 0 and redis.call('ZCARD', key_asked(label)) >= cap
end

-- Note in hub:store, which every script reads, whether there is any cap at all.
local function note_caps()
  opened[10] = redis.call('EXISTS', key_caps) == 1 and '1' or '0'
  redis.call('HSET', key_store, 'capped', opened[10])
end
