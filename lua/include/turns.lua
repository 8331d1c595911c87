-- @include store
-- @include caps
-- Who waits, by label: turns, and the index that finds the label a freed slot goes to.
local anybody = opened[9] == '1'  -- whether anybody has a turn, from hub:store, which every script reads
local function somebody_waits() return anybody end

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
    redis.call('EXPIRE', key_pace(label), 45)
    anybody = redis.call('EXISTS', key_turns) == 1
    if not anybody then redis.call('HDEL', key_store, 'waiting') end
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
  if not anybody then redis.call('HSET', key_store, 'waiting', '1') end
  anybody = true
  reoffer(label)
end
