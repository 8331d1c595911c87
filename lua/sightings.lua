-- Where slots have been seen.
local sightings = {}

-- How often each place that a slot was seen in, or that its record names, holds it now: {place, label, item, count} for
-- each that does, the total, and how many of them are where the record says. A place is 'free' or 'lent'.
function sightings.list_of(place, label)
  return place == 'free' and keys.available(label) or keys.inuse(label)
end

function sightings.count(seen, record)
  local found, total, home, done = {}, 0, 0, {}
  local function look(place, label, item)
    local name = place .. '\n' .. label .. '\n' .. item
    if done[name] then return end
    done[name] = true
    local count = #redis.call('LPOS', sightings.list_of(place, label), item, 'COUNT', 0)
    if count == 0 then return end
    found[#found + 1] = {place = place, label = label, item = item, count = count}
    total = total + count
    if place == record.place and label == record.pool and item == record.item then home = home + count end
  end
  if record.item and record.pool then
    look('free', record.pool, record.item)
    look('lent', record.pool, record.item)
  end
  for _, each in ipairs(seen) do look(each[1], each[2], each[3]) end
  return found, total, home
end

return sightings
