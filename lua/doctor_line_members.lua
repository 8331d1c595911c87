-- Rules of the doctor for classes of slots and for lines of tickets that want the same, in the form of those in doctor_members: whether a
-- member belongs to an index.
local doctor_line_members = {}

doctor_line_members.belongs = {}
local belongs = doctor_line_members.belongs

-- Return the two parts of a name that a blank joins: a label, and a class, a want or a key.
function doctor_line_members.parts(name) return string.match(name, '^(.*) (%S+)$') end
local parts = doctor_line_members.parts

function belongs.classes(_, class) return redis.call('HEXISTS', keys.slot_class(class), 'attributes') == 1 end
function belongs.free_in(name, slot)
  local pool, class = parts(name)
  local record = redis.call('HMGET', keys.slot(slot), 'pool', 'place', 'class')
  return record[1] == pool and record[2] == 'free' and record[3] == class
end
function belongs.warm(name, slot)
  local pool, key = parts(name)
  local record = redis.call('HMGET', keys.slot(slot), 'pool', 'place', 'warm')
  return record[1] == pool and record[2] == 'free' and string.find(' ' .. (record[3] or '') .. ' ', ' ' .. key .. ' ', 1, true)
end
function belongs.order(pool, slot)
  local record = redis.call('HMGET', keys.slot(slot), 'pool', 'place', 'class', 'warm')
  return record[1] == pool and record[2] == 'free' and (record[3] or record[4])
end
function belongs.free_classes(pool, class) return redis.call('EXISTS', keys.free_in(pool .. ' ' .. class)) == 1 end
function belongs.open_class(name, pool)
  local segments, class = parts(name)
  local _, colons = string.gsub(pool, ':', '')
  return tonumber(segments) == colons + 1 and belongs.free_classes(pool, class)
end
function belongs.unclassed(_, slot)
  local record = redis.call('HMGET', keys.slot(slot), 'item', 'class')
  return record[1] and not record[2]
end

-- Return whether tickets of a label stand in a line of this want.
local function is_line(label, want)
  return redis.call('SISMEMBER', keys.lines(label), want) == 1 and redis.call('EXISTS', lines.key_of(label, want)) == 1
end
function belongs.lines(label, want) return is_line(label, want) and redis.call('SISMEMBER', keys.all_lines, label .. '\t' .. want) == 1 end
function belongs.all_lines(_, line)
  local label, want = string.match(line, '^(.*)\t(.*)$')
  return label and is_line(label, want)
end
function belongs.want_line(name, ticket)
  local label, want = parts(name)
  local t = tickets.read(ticket)
  if not t.label or not redis.call('ZSCORE', keys.queue(label), ticket) then return false end
  for _, each in ipairs(alternatives.of(t)) do
    if each[1] == label and (each[2] == '' and '-' or each[2]) == want then
      return want ~= '-' or redis.call('EXISTS', keys.lines(label)) == 1
    end
  end
end
function belongs.fitting(name, want)
  local label, class = parts(name)
  return is_line(label, want) and redis.call('SISMEMBER', keys.classes, class) == 1 and wants.suits(want, class)
end
function belongs.fit(name, label)
  local stem, class = parts(name)
  local is_place = string.sub(label .. ':', 1, #stem + 1) == stem .. ':'
  if turns.is_wild(label) then is_place = stem == '*' end
  return is_place and redis.call('ZSCORE', keys.turns, label) and redis.call('EXISTS', keys.fitting(label .. ' ' .. class)) == 1
end
function belongs.parked(label, class)
  return redis.call('SISMEMBER', keys.classes, class) == 1 and redis.call('EXISTS', keys.lines(label)) == 1 and caps.reached(label)
end

return doctor_line_members
