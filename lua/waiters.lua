-- Waiters: which waiter is served next.
local waiters = {}

-- Return the label whose turn it is among those that tickets wait for and that a pool may serve, and its turn. Labels that are the pool
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
      if pools.wild_serves(wild[i], pool) then
        consider(wild[i], wild[i + 1])
        break
      end
    end
  end
  return label, turn
end

-- Return the label whose turn it is, also among those with tickets that want what a class has, and whether it is one of the latter.
local function next_for(pool, class)
  local label, turn = waiters.next_label(pool)
  local fit, its_turn
  if class then fit, its_turn = fits.next_label(pool, class) end
  if fit and not (turn and turn < its_turn) then return fit, true end
  return label, false
end

-- Return the first ticket of a label that may have a slot of a class, and what it wants, '' for nothing in particular.
local function first_of(label, class)
  local plain = redis.call('ZRANGE', turns.plain(label), 0, 0, 'WITHSCORES')
  local ticket, score, want
  if class then ticket, score, want = fits.first(label, class) end
  if ticket and not (plain[1] and tonumber(plain[2]) < score) then return ticket, want end
  return plain[1], ''
end

-- Return the ticket that gets a free slot of a pool, whose class is given where it has one; nil when no ticket may have it. The label of
-- the ticket is the one under which it is served. Tickets of hubs that no longer tick are set aside.
function waiters.next(pool, class)
  if teams.of(pool) then return team_waiters.next(pool, class) end
  for _ = 1, 200 do
    local label, fits_class = next_for(pool, class)
    if not label then return nil end
    local first, want = first_of(label, class)
    if not first or caps.reached(label) then
      turns.reoffer(label)
      if fits_class then listings.unlist(label, class) end
    elseif want ~= '' and not redis.call('ZSCORE', keys.queue(label), first) then
      lines.leave(label, want, first)  -- an older hub has served it
    else
      local t = tickets.read(first)
      if t.label and t.hub and hubs.is_heard(t.hub) then
        t.label, t.want = label, want
        return t
      end
      if t.label then tickets.set_aside(t, 'hub') else
        lines.leave(label, want, first)
        redis.call('ZREM', keys.queue(label), first)  -- the record of the ticket was lost
      end
    end
  end
end

return waiters
