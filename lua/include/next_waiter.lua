-- @include ticket
-- Does a label with `*` match a pool, under the options there are?
local function wild_serves(want, pool)
  local a, b = string.gmatch(want, '[^:]+'), string.gmatch(pool, '[^:]+')
  local left, right = a(), b()
  while left and right do
    if left ~= '*' and left ~= right then return false end
    left, right = a(), b()
  end
  if left then return trailing == '1' end
  return not right or prefix == '1'
end

-- Of the waiting labels that a pool may serve, the one whose turn it is; nil for none. A label is under the pool when it
-- is the pool or longer (trailing fallback); a shorter one is a stem of the pool (prefix expansion).
local function next_label(pool)
  local label, turn
  local function consider(other, its_turn)
    its_turn = tonumber(its_turn or nil)
    if its_turn and (not turn or its_turn < turn) then label, turn = other, its_turn end
  end
  if trailing == '1' then
    local first = redis.call('ZRANGE', key_under(pool), 0, 0, 'WITHSCORES')
    consider(first[1], first[2])
  else
    consider(pool, redis.call('ZSCORE', key_under(pool), pool))
  end
  if prefix == '1' then
    local shorter = stems(pool)
    for i = 1, #shorter - 1 do consider(shorter[i], redis.call('ZSCORE', key_under(shorter[i]), shorter[i])) end
  end
  if wildcards == '1' then
    local wild = redis.call('ZRANGE', key_wild, 0, 499, 'WITHSCORES')
    for i = 1, #wild, 2 do
      if wild_serves(wild[i], pool) then
        consider(wild[i], wild[i + 1])
        break
      end
    end
  end
  return label
end

-- The ticket a free slot of a pool goes to; nil when nobody may have it. Tickets of hubs that are gone are passed over.
local function next_waiter(pool)
  for _ = 1, 200 do
    local label = next_label(pool)
    if not label then return nil end
    local first = redis.call('ZRANGE', key_line(label), 0, 0)[1]
    if not first or capped(label) then
      reoffer(label)
    else
      local t = read_ticket(first)
      if t.hub and heard(t.hub) then return t end
      if t.label then
        set_aside(t, 'hub')
      else
        redis.call('ZREM', key_line(label), first)  -- its record was lost
      end
    end
  end
end
