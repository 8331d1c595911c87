-- Quotas: how much each user and each room holds of what takes memory. It is counted in the script that adds it or takes it away.
local quotas = {}

-- Kinds: 'tasks' (bytes of open tasks and of schedules), 'schemas' (bytes of the schemas of jobs and providers), 'schedules',
-- 'providers', and of users alone 'rooms' (those that the user opened and that hold something).
quotas.EACH = 512  -- bytes that each record counts beside its text
local KINDS, ROOM_TIMES = {'schemas', 'tasks', 'schedules', 'providers'}, 4  -- a room may hold as much as four users

-- Add to what an owner holds of a kind, and return what it holds now.
local function add(kind, owner, amount)
  local held = tonumber(redis.call('ZINCRBY', keys.used(kind), numbers.digits(amount), owner))
  if held <= 0 then redis.call('ZREM', keys.used(kind), owner) end
  return held
end

local function refuse(kind, owner, held, most) return {'quota', kind, owner, numbers.digits(held), numbers.digits(most)} end

-- Count a room no longer for the user who opened it, if it holds nothing more.
function quotas.close(room)
  for _, kind in ipairs(KINDS) do
    if redis.call('ZSCORE', keys.used(kind), 'room:' .. room) then return end
  end
  local user = redis.call('HGET', keys.room_openers, room)
  if user and redis.call('HDEL', keys.room_openers, room) == 1 then add('rooms', 'user:' .. user, -1) end
end

-- Count a room that begins to hold something for the user who adds that. Returns nil, or the refusal of one room too many.
local function open(room, user, is_free)
  if string.sub(room, 1, 1) == '@' or redis.call('HSETNX', keys.room_openers, room, user) == 0 then return end
  local held, most = add('rooms', 'user:' .. user, 1), allowances.of('rooms')
  if most and held > most and not is_free then
    quotas.close(room)
    return refuse('rooms', 'user:' .. user, held - 1, most)
  end
end

-- Count so much less of a kind for a user and a room; `in_room` is what the room counts less, where that is another amount.
function quotas.release(kind, user, room, amount, in_room)
  add(kind, 'user:' .. user, 0 - amount)
  if add(kind, 'room:' .. room, 0 - (in_room or amount)) <= 0 then quotas.close(room) end
end

-- Count a schedule that was deleted no longer.
function quotas.release_schedule(s)
  if not (s.user and tonumber(s.bytes)) then return end
  quotas.release('tasks', s.user, s.room, tonumber(s.bytes))
  quotas.release('schedules', s.user, s.room, 1)
end

-- Count so much more of a kind for a user and a room. how: `is_free`, a repeat by a hub after a loss, is never refused; `later` is what
-- further calls of the same request will add; `before` is what the room counts of this record for the user from whom it is taken over;
-- with `is_open` the room counts as holding something already. Returns nil, or {'quota', kind, owner, what it holds, the limit}.
function quotas.take(kind, user, room, amount, how)
  local most, later, in_room = allowances.of(kind), how.later or 0, amount - (how.before or 0)
  local of_user, of_room = add(kind, 'user:' .. user, amount), add(kind, 'room:' .. room, in_room)
  local refusal
  if most and amount > 0 and not how.is_free then
    if of_user + later > most then refusal = refuse(kind, 'user:' .. user, of_user - amount, most) end
    local is_full = in_room > 0 and of_room + later > most * ROOM_TIMES
    if is_full then refusal = refuse(kind, 'room:' .. room, of_room - in_room, most * ROOM_TIMES) end
  end
  if not refusal and of_room == in_room and not how.is_open then refusal = open(room, user, how.is_free) end
  if refusal then quotas.release(kind, user, room, amount, in_room) end
  return refusal
end

-- Count one more of what is remembered for so many seconds, such as keys of a user. Each counts for up to an eighth longer. Returns
-- nil, or a refusal like that of `quotas.take`.
function quotas.note(kind, user, seconds)
  local key, part, held, most = keys.recent(kind .. ':' .. user), math.floor(store.now_ms / (seconds * 125)), 0, allowances.of(kind)
  local counts = redis.call('HGETALL', key)
  for i = 1, #counts, 2 do
    if part - tonumber(counts[i]) > 8 then redis.call('HDEL', key, counts[i]) else held = held + tonumber(counts[i + 1]) end
  end
  if most and held >= most then return refuse(kind, 'user:' .. user, held, most) end
  redis.call('HINCRBY', key, numbers.digits(part), 1)
  redis.call('EXPIRE', key, keys.seconds.recent)
end

return quotas
