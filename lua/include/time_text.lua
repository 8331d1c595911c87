-- Milliseconds since 1970 as the wire writes time: seven fractional digits and Z.
-- The date is Howard Hinnant's civil_from_days.
local function time_text(ms)
  local floor = math.floor
  local seconds = floor(ms / 1000)
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
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03d0000Z', year + era * 400, month, day,
    floor(second / 3600), floor(second / 60) % 60, second % 60, ms % 1000)
end
