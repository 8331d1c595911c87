-- Fits: which label and which ticket gets a slot of a class, among those that want something that the class has. What is listed is never
-- later than the truth, and is put right where it is met.
local fits = {}

local REPAIRS = 200  -- in one call; after that the label that is listed first counts as the first

-- Return the label that is listed first for a pool and a class, its listed turn and the key; nil for none.
local function listed(pool, class)
  local label, turn, index
  local function consider(key, other, its_turn)
    its_turn = tonumber(its_turn or nil)
    if its_turn and (not turn or its_turn < turn) then label, turn, index = other, its_turn, key end
  end
  local own = keys.fit(pool .. ' ' .. class)
  if store.trailing == '1' then
    local first = redis.call('ZRANGE', own, 0, 0, 'WITHSCORES')
    consider(own, first[1], first[2])
  else
    consider(own, pool, redis.call('ZSCORE', own, pool))
  end
  if store.prefix == '1' then
    local shorter = turns.stems(pool)
    shorter[#shorter] = string.match(pool, '^[^:]+')  -- only tickets that want something may name one segment
    for _, stem in ipairs(shorter) do
      local key = keys.fit(stem .. ' ' .. class)
      if stem ~= pool then consider(key, stem, redis.call('ZSCORE', key, stem)) end
    end
  end
  if store.wildcards == '1' then
    local key = keys.fit('* ' .. class)
    local wild = redis.call('ZRANGE', key, 0, 499, 'WITHSCORES')
    for i = 1, #wild, 2 do
      if pools.wild_serves(wild[i], pool) then
        consider(key, wild[i], wild[i + 1])
        break
      end
    end
  end
  return label, turn, index
end

-- Return the label whose turn it is among those with tickets that want what a class has and that a pool may serve, and its turn.
function fits.next_label(pool, class)
  for n = 1, 2 * REPAIRS do
    local label, turn, index = listed(pool, class)
    if not label then return nil end
    local now = tonumber(redis.call('ZSCORE', keys.turns, label) or nil)
    if not now or redis.call('EXISTS', keys.fitting(label .. ' ' .. class)) == 0 then
      redis.call('ZREM', index, label)
    elseif caps.reached(label) then
      listings.unlist(label, class)
      redis.call('SADD', keys.parked(label), class)
    elseif now > turn and n < REPAIRS then
      redis.call('ZADD', index, now, label)
    else
      return label, now
    end
  end
end

-- Return the first ticket of a label among those that want what a class has: ticket, score, want; nil for none.
function fits.first(label, class)
  local index = keys.fitting(label .. ' ' .. class)
  while true do
    local want, bound = unpack(redis.call('ZRANGE', index, 0, 0, 'WITHSCORES'))
    if not want then return nil end
    local ticket, score = unpack(redis.call('ZRANGE', keys.want_line(label .. ' ' .. want), 0, 0, 'WITHSCORES'))
    if not ticket then
      redis.call('ZREM', index, want)
    elseif tonumber(score) > tonumber(bound) then
      redis.call('ZADD', index, score, want)
    else
      return ticket, tonumber(score), want
    end
  end
end

return fits
