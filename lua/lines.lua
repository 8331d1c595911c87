-- Lines: the tickets of a label that want the same. All tickets of a label stand in its queue; those that want something stand in a line as
-- well, and while there are such lines the others stand in the line `-`. A ticket has one place or, with alternatives, several, all at
-- the same score: t.alternatives is {{label, want or '', tree of the want as JSON}, ...}, the preferred one first; nil for the label alone.
local lines = {}

local function key_of(label, want) return keys.want_line(label .. ' ' .. (want == '' and '-' or want)) end
lines.key_of = key_of
-- Put a ticket into a line, before it is put into the queue of the label. Returns whether it is the first there.
local function enter(t, label, want, tree)
  if want == '' and redis.call('EXISTS', keys.lines(label)) == 0 then return false end
  if want ~= '' and redis.call('SADD', keys.lines(label), want) == 1 then
    if not store.matching then classes.changed() end
    if redis.call('SCARD', keys.lines(label)) == 1 then redis.call('ZUNIONSTORE', key_of(label, ''), 1, keys.queue(label)) end
    redis.call('SADD', keys.all_lines, label .. '\t' .. want)
    redis.call('HSET', keys.want(want), 'tree', tree)
    redis.call('HINCRBY', keys.want(want), 'lines', 1)
  end
  redis.call('ZADD', key_of(label, want), t.score, t.id)
  return redis.call('ZRANK', key_of(label, want), t.id) == 0
end

-- Take a ticket out of a line. A line without tickets ends.
function lines.leave(label, want, ticket)
  if redis.call('ZREM', key_of(label, want), ticket) == 0 or redis.call('EXISTS', key_of(label, want)) == 1 then return end
  if want == '' then return turns.reoffer(label) end
  listings.withdraw(label, want)
  redis.call('SREM', keys.all_lines, label .. '\t' .. want)
  if redis.call('HINCRBY', keys.want(want), 'lines', -1) <= 0 then redis.call('DEL', keys.want(want)) end
  redis.call('SREM', keys.lines(label), want)
  if redis.call('EXISTS', keys.lines(label)) == 0 then redis.call('DEL', key_of(label, ''), keys.parked(label)) end
end

-- Put a ticket into one of its places. Returns whether it was not there before.
local function join(t, label, want, tree)
  local is_first = (want ~= '' or store.matching) and enter(t, label, want, tree)
  local added = redis.call('ZADD', keys.queue(label), t.score, t.id) == 1
  if added and not redis.call('ZSCORE', keys.turns, label) then
    redis.call('HSET', keys.pace(label), 'mark_ms', store.now_ms)
    redis.call('EXPIRE', keys.pace(label), keys.seconds.pace)
    turns.take(label)
  end
  if is_first and want ~= '' then listings.offer(label, want, t.score) elseif is_first then turns.reoffer(label) end
  return added
end

-- Put a ticket into all its places. Returns whether it was in none of them before.
function lines.join(t)
  if t.wish then return bundle_line.join(t) end
  local is_new = not t.alternatives and join(t, t.label, '', '')
  for _, each in ipairs(t.alternatives or {}) do is_new = join(t, each[1], each[2], each[3]) or is_new end
  if store.teams ~= '' then team_lines.join(t) end
  return is_new
end

local function step_out(t, label, want)
  local waited = redis.call('ZREM', keys.queue(label), t.id) == 1
  if store.matching then lines.leave(label, want, t.id) end
  if redis.call('EXISTS', keys.queue(label)) == 0 then turns.reoffer(label) end
  return waited
end

-- Take a ticket out of all its places. Returns whether it was in any.
function lines.step_out(t)
  if t.wish then return bundle_line.step_out(t.id, t.comes_again) end
  if store.teams ~= '' then team_lines.step_out(t) end
  if not t.alternatives then return step_out(t, t.label, '') end
  local waited = false
  for _, each in ipairs(t.alternatives) do waited = step_out(t, each[1], each[2]) or waited end
  return waited
end

return lines
