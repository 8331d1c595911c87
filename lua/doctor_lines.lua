-- Checks and repairs of lines: the tickets of a label that want the same, and the indexes in which a slot of a class finds them.
local doctor_lines = {}
-- Return whether a member of a sorted set is listed no later than `bound`.
local function is_below(index, member, bound)
  local listed = tonumber(redis.call('ZSCORE', index, member) or nil)
  return listed and listed <= tonumber(bound)
end

-- Check a line: it is listed under each class that suits, and so is its label, or it is parked there while its cap is reached.
function doctor_lines.check(say, _, label, want)
  local first = redis.call('ZRANGE', lines.key_of(label, want), 0, 0, 'WITHSCORES')[2]
  if not first then return end
  say('want lost', redis.call('HEXISTS', keys.want(want), 'tree') == 0)
  local turn, unfitting, unlisted = redis.call('ZSCORE', keys.turns, label), false, false
  for _, class in ipairs(redis.call('SMEMBERS', keys.classes)) do
    if wants.suits(want, class) then
      unfitting = unfitting or not is_below(keys.fitting(label .. ' ' .. class), want, first)
      local parked = caps.reached(label) and redis.call('SISMEMBER', keys.parked(label), class) == 1
      for _, place in ipairs(turn and not parked and listings.places(label) or {}) do
        unlisted = unlisted or not is_below(keys.fit(place .. ' ' .. class), label, turn)
      end
    end
  end
  say('not fitting', unfitting)
  say('not offered', unlisted)
end

-- List a line under each class that suits. What its tickets want is read from the first of them where it was lost.
function doctor_lines.repair(label, want)
  local first = redis.call('ZRANGE', lines.key_of(label, want), 0, 0, 'WITHSCORES')
  if not first[1] then return end
  for _, each in ipairs(tickets.read(first[1]).alternatives or {}) do
    if each[2] == want then redis.call('HSETNX', keys.want(want), 'tree', each[3]) end
  end
  if not redis.call('ZSCORE', keys.turns, label) then turns.take(label) end
  for _, class in ipairs(classes.suiting(want)) do listings.unlist(label, class) end
  listings.offer(label, want, first[2])
  serving.label(label, true)
end

local function count(want)
  local found = 0
  for _, line in ipairs(redis.call('SMEMBERS', keys.all_lines)) do
    if string.sub(line, -#want - 1) == '\t' .. want then found = found + 1 end
  end
  return found
end

function doctor_lines.check_want(say, _, want)
  local found = count(want)
  say('miscounted', found > 0 and tonumber(redis.call('HGET', keys.want(want), 'lines') or '0') ~= found)
  say('left', found == 0 and redis.call('EXISTS', keys.want(want)) == 1)
end

function doctor_lines.repair_want(want)
  if count(want) == 0 then redis.call('DEL', keys.want(want)) else redis.call('HSET', keys.want(want), 'lines', count(want)) end
end

-- How a member is taken out of an index where more follows from it.
doctor_lines.take_out = {
  classes = function(_, class) if redis.call('SREM', keys.classes, class) == 1 then classes.changed() end end,
  free_in = function(name, slot)
    redis.call('ZREM', keys.free_in(name), slot)
    doctor_classes.repair_offer(name)
  end,
  want_line = function(name, ticket)
    local label, want = doctor_line_members.parts(name)
    lines.leave(label, want == '-' and '' or want, ticket)
  end,
  all_lines = function(_, line)
    redis.call('SREM', keys.all_lines, line)
    doctor_lines.repair_want(string.match(line, '[^\t]*$'))
  end,
  fitting = function(name, want)
    redis.call('ZREM', keys.fitting(name), want)
    if redis.call('EXISTS', keys.fitting(name)) == 0 then listings.unlist(doctor_line_members.parts(name)) end
  end,
}

return doctor_lines
