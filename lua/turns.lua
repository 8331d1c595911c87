-- Turns: which label is served next, and the indexes in which a freed slot finds the labels that it may serve.
local turns = {}

-- Return whether any ticket waits.
function turns.anybody() return store.anybody_waits end

-- Return whether a label has a `*` segment that stands for any segment.
function turns.is_wild(label)
  return store.wildcards == '1' and string.find(label, '*', 1, true) ~= nil
    and string.find(':' .. label .. ':', ':*:', 1, true) ~= nil
end

-- Return a label and each shorter label that it begins with, of two or more segments: the pools that may serve it are listed under
-- these.
function turns.stems(label)
  local found, colons = {}, 0
  for at in string.gmatch(label, '():') do
    colons = colons + 1
    if colons > 1 then found[#found + 1] = string.sub(label, 1, at - 1) end
  end
  found[#found + 1] = label
  return found
end

-- Return the key in which the tickets of a label stand that want nothing in particular.
function turns.plain(label)
  local has_lines = store.matching and redis.call('EXISTS', keys.lines(label)) == 1
  return has_lines and keys.want_line(label .. ' -') or keys.queue(label)
end

-- List a label again where it was met while its cap was reached: under classes, and for teams.
local function unpark(label, turn, places)
  for _, class in ipairs(redis.call('SMEMBERS', keys.parked(label))) do
    if redis.call('EXISTS', keys.fitting(label .. ' ' .. class)) == 1 then
      for _, place in ipairs(places) do redis.call('ZADD', keys.fit(place .. ' ' .. class), 'NX', turn, label) end
    end
  end
  for _, team in ipairs(redis.call('SMEMBERS', keys.team_parked(label))) do
    for _, place in ipairs(places) do redis.call('ZADD', keys.team_under(place .. '\t' .. team), 'NX', turn, label) end
  end
  redis.call('DEL', keys.parked(label), keys.team_parked(label))
end

-- List a label in the indexes in which freed slots look, or take it out when no ticket waits for it or its cap is reached. Tickets that
-- want something are found in the indexes of `lines`.
function turns.reoffer(label)
  local turn = redis.call('ZSCORE', keys.turns, label)
  if turn and redis.call('EXISTS', keys.queue(label)) == 0 then
    redis.call('ZREM', keys.turns, label)
    redis.call('EXPIRE', keys.pace(label), 45)
    store.anybody_waits = redis.call('EXISTS', keys.turns) == 1
    if not store.anybody_waits then redis.call('HDEL', keys.store, 'waiting') end
    turn = false
  end
  if turn and caps.reached(label) then turn = false end
  local places = turns.is_wild(label) and {'*'} or turns.stems(label)
  local may_be_parked = turn and (store.matching or store.teams ~= '')
  if may_be_parked and redis.call('EXISTS', keys.parked(label), keys.team_parked(label)) > 0 then unpark(label, turn, places) end
  if turn and store.matching and redis.call('EXISTS', turns.plain(label)) == 0 then turn = false end
  for _, place in ipairs(places) do
    local index = place == '*' and keys.wild or keys.under(place)
    if turn then redis.call('ZADD', index, turn, label) else redis.call('ZREM', index, label) end
  end
end

-- Give a label the next turn, behind all labels that wait now.
function turns.take(label)
  redis.call('ZADD', keys.turns, redis.call('HINCRBY', keys.store, 'turn', 1), label)
  if not store.anybody_waits then redis.call('HSET', keys.store, 'waiting', '1') end
  store.anybody_waits = true
  turns.reoffer(label)
end

return turns
