-- @include store
-- Who waits, by label: caps, turns, and the index that finds the label a freed slot goes to.
local anybody  -- looked up once per script
local function somebody_waits()
  if anybody == nil then anybody = redis.call('EXISTS', key_turns) == 1 end
  return anybody
end

-- The most live grants of a label, 0 for no limit; a value set at run time wins over one from the environment.
local function cap_of(label)
  local caps = redis.call('HMGET', key_caps, 'set:' .. label, 'env:' .. label, 'set', 'env')
  return tonumber(caps[1] or caps[2] or caps[3] or caps[4] or '0')
end
local function capped(label)
  local cap = cap_of(label)
  return cap > 0 and redis.call('ZCARD', key_asked(label)) >= cap
end

local function is_wild(label)
  return wildcards == '1' and string.find(':' .. label .. ':', ':*:', 1, true) ~= nil
end

-- A label and every shorter one of two or more segments: the pools that may serve it are under one of them.
local function stems(label)
  local found, colons = {}, 0
  for at in string.gmatch(label, '():') do
    colons = colons + 1
    if colons > 1 then found[#found + 1] = string.sub(label, 1, at - 1) end
  end
  found[#found + 1] = label
  return found
end

-- Put a label where freed slots look for it, or take it out when nobody waits for it or its cap is reached.
local function reoffer(label)
  local turn = redis.call('ZSCORE', key_turns, label)
  if turn and redis.call('EXISTS', key_line(label)) == 0 then
    redis.call('ZREM', key_turns, label)
    turn = false
  end
  if turn and capped(label) then turn = false end
  local indexes = {}
  if is_wild(label) then
    indexes[1] = key_wild
  else
    for i, stem in ipairs(stems(label)) do indexes[i] = key_under(stem) end
  end
  for _, index in ipairs(indexes) do
    if turn then redis.call('ZADD', index, turn, label) else redis.call('ZREM', index, label) end
  end
end

-- The next turn: behind every label that waits now.
local function take_turn(label)
  redis.call('ZADD', key_turns, redis.call('HINCRBY', key_store, 'turn', 1), label)
  reoffer(label)
end
