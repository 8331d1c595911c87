-- Waiters: which waiter is served next.
local waiters = {}

-- Return whether a label with `*` matches a pool, under the matching options of the store.
function waiters.wild_serves(want, pool)
  local a, b = string.gmatch(want, '[^:]+'), string.gmatch(pool, '[^:]+')
  local left, right = a(), b()
  while left and right do
    if left ~= '*' and left ~= right then return false end
    left, right = a(), b()
  end
  if left then return store.trailing == '1' end
  return not right or store.prefix == '1'
end

-- Return the label whose turn it is among those that tickets wait for and that a pool may serve; nil for none. Labels that are the pool
-- or longer are listed under the pool (trailing fallback); a shorter label is a stem of the pool (prefix expansion).
function waiters.next_label(pool)
  local label, turn
  local function consider(other, its_turn)
    its_turn = tonumber(its_turn or nil)
    if its_turn and (not turn or its_turn < turn) then label, turn = other, its_turn end
  end
  if store.trailing == '1' then
    local first = redis.call('ZRANGE', keys.under(pool), 0, 0, 'WITHSCORES')
    consider(first[1], first[2])
  else
    consider(pool, redis.call('ZSCORE', keys.under(pool), pool))
  end
  if store.prefix == '1' then
    local shorter = turns.stems(pool)
    for i = 1, #shorter - 1 do consider(shorter[i], redis.call('ZSCORE', keys.under(shorter[i]), shorter[i])) end
  end
  if store.wildcards == '1' then
    local wild = redis.call('ZRANGE', keys.wild, 0, 499, 'WITHSCORES')
    for i = 1, #wild, 2 do
      if waiters.wild_serves(wild[i], pool) then
        consider(wild[i], wild[i + 1])
        break
      end
    end
  end
  return label
end

-- Return the ticket that gets the next free slot of a pool; nil when no ticket may have it. Tickets of hubs that no longer tick are set
-- aside.
function waiters.next(pool)
  for _ = 1, 200 do
    local label = waiters.next_label(pool)
    if not label then return nil end
    local first = redis.call('ZRANGE', keys.queue(label), 0, 0)[1]
    if not first or caps.reached(label) then
      turns.reoffer(label)
    else
      local t = tickets.read(first)
      if t.label and t.hub and hubs.is_heard(t.hub) then return t end
      if t.label then
        tickets.set_aside(t, 'hub')
      else
        redis.call('ZREM', keys.queue(label), first)  -- the record of the ticket was lost
      end
    end
  end
end

return waiters
