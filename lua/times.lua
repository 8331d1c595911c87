-- Times as the wire writes and reads them.
local times = {}

-- Return a second since 1970 as text, up to the point before its fraction. The date is Howard Hinnant's civil_from_days.
local function second_text(seconds)
  local floor = math.floor
  local second = seconds % 86400
  local days = (seconds - second) / 86400 + 719468
  local day_of_era = days % 146097
  local era = (days - day_of_era) / 146097
  local year = floor((day_of_era - floor(day_of_era / 1460) + floor(day_of_era / 36524) - floor(day_of_era / 146096)) / 365)
  local day_of_year = day_of_era - (365 * year + floor(year / 4) - floor(year / 100))
  local moved = floor((5 * day_of_year + 2) / 153)
  local day = day_of_year - floor((153 * moved + 2) / 5) + 1
  local month = moved < 10 and moved + 3 or moved - 9
  if month <= 2 then year = year + 1 end
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.', year + era * 400, month, day,
    floor(second / 3600), floor(second / 60) % 60, second % 60)
end

-- Return milliseconds since 1970 as the wire writes a time: seven fractional digits and Z. The text of the last second is kept: a busy
-- hub writes thousands of times in one second.
local written, text_of_it
function times.text(ms)
  local seconds = math.floor(ms / 1000)
  if seconds ~= written then written, text_of_it = seconds, second_text(seconds) end
  return text_of_it .. string.format('%03d0000Z', ms % 1000)
end

-- Return the milliseconds since 1970 of an ISO-8601 text with 0 to 9 fractional digits and Z, an offset or neither (then UTC); nil for
-- any other text. The date is Howard Hinnant's days_from_civil.
function times.parse(text)
  local year, month, day, hour, minute, second, rest =
    string.match(text, '^(%d%d%d%d)%-(%d%d)%-(%d%d)[Tt ](%d%d):(%d%d):(%d%d)(.*)$')
  if not year then return nil end
  year, month, day = tonumber(year), tonumber(month), tonumber(day)
  hour, minute, second = tonumber(hour), tonumber(minute), tonumber(second)
  local fraction, zone = string.match(rest, '^%.(%d+)(.*)$')
  if fraction and #fraction > 9 then return nil end
  zone = zone or rest
  local shift = 0
  if zone ~= '' and zone ~= 'Z' and zone ~= 'z' then
    local sign, hours, minutes = string.match(zone, '^([+-])(%d%d):?(%d%d)$')
    if not sign or tonumber(hours) > 23 or tonumber(minutes) > 59 then return nil end
    shift = (tonumber(hours) * 60 + tonumber(minutes)) * (sign == '+' and 60 or -60)
  end
  local leap = year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)
  local lengths = {31, leap and 29 or 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
  if month < 1 or month > 12 or day < 1 or day > lengths[month] then return nil end
  if hour > 23 or minute > 59 or second > 59 then return nil end
  local shifted = month <= 2 and year - 1 or year
  local era = math.floor(shifted / 400)
  local year_of_era = shifted - era * 400
  local day_of_year = math.floor((153 * (month > 2 and month - 3 or month + 9) + 2) / 5) + day - 1
  local day_of_era = year_of_era * 365 + math.floor(year_of_era / 4) - math.floor(year_of_era / 100) + day_of_year
  local days = era * 146097 + day_of_era - 719468
  local ms = math.floor(tonumber('0.' .. (fraction or '0')) * 1000)
  return (days * 86400 + hour * 3600 + minute * 60 + second - shift) * 1000 + ms
end

return times
