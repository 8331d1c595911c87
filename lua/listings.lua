-- Listings: labels are listed under each class that suits what one of their tickets wants, where a freed slot of the class looks for them.
local listings = {}

-- Return the names under which a label is listed: the pools that may serve it look there.
function listings.places(label) return turns.is_wild(label) and {'*'} or turns.stems(label) end

-- List a label under a class that suits a want; `score` is that of the first ticket that wants it, or a lower one. A label whose cap is
-- reached is parked instead.
local function list(label, want, class, score, turn)
  redis.call('ZADD', keys.fitting(label .. ' ' .. class), 'LT', score, want)
  if caps.reached(label) then redis.call('SADD', keys.parked(label), class) return end
  for _, place in ipairs(listings.places(label)) do redis.call('ZADD', keys.fit(place .. ' ' .. class), 'NX', turn, label) end
end

-- List a label, which has a turn, under all classes that suit a want; the first ticket that wants it has this score.
function listings.offer(label, want, score)
  local turn = redis.call('ZSCORE', keys.turns, label)
  for _, class in ipairs(classes.suiting(want)) do list(label, want, class, score, turn) end
end

-- Return the classes that suit any want of a label.
function listings.classes_of(label)
  local found = {}
  for _, class in ipairs(classes.all()) do
    if redis.call('EXISTS', keys.fitting(label .. ' ' .. class)) == 1 then found[#found + 1] = class end
  end
  return found
end

-- Take a label from all its places under a class, also from those that it had while wildcards were on or off.
function listings.unlist(label, class)
  for _, place in ipairs(turns.stems(label)) do redis.call('ZREM', keys.fit(place .. ' ' .. class), label) end
  if string.find(label, '*', 1, true) then redis.call('ZREM', keys.fit('* ' .. class), label) end
end

-- Take a want of a label, which no ticket has any more, from under all classes.
function listings.withdraw(label, want)
  for _, class in ipairs(classes.suiting(want)) do
    redis.call('ZREM', keys.fitting(label .. ' ' .. class), want)
    if redis.call('EXISTS', keys.fitting(label .. ' ' .. class)) == 0 then listings.unlist(label, class) end
  end
end

return listings
