-- Milliseconds since 1970 as the wire writes time: seven fractional digits and Z.
-- The date is Howard Hinnant's civil_from_days.
local function time_text(ms)
  local seconds = math.floor(ms / 1000)
  local days = math.floor(seconds / 86400)
  local second = seconds - days * 86400
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local day_of_era = shifted - era * 146097
  local year = math.floor((day_of_era - math.floor(day_of_era / 1460) + math.floor(day_of_era / 36524)
    - math.floor(day_of_era / 146096)) / 365)
  local day_of_year = day_of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local moved = math.floor((5 * day_of_year + 2) / 153)
  local day = day_of_year - math.floor((153 * moved + 2) / 5) + 1
  local month = moved < 10 and moved + 3 or moved - 9
  if month <= 2 then year = year + 1 end
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d0000Z', year + era * 400, month, day,
    math.floor(second / 3600), math.floor(second / 60) % 60, second % 60, ms % 1000)
end
