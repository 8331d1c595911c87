-- Times in the records of other programs.
local record_times = {}

-- A time of a record is a Unix time in s or ms, with or without a fraction, or ISO-8601 text.
record_times.FIRST_MS = 100000000000  -- Unix times from here on are in ms: 1973 in ms, in s it would be the year 5138

-- Return the fraction of a second in microseconds (with `places` 3, the fraction of a millisecond), rounded up: no record looks older
-- than it is.
local function fraction_us(digits, places)
  local rest = string.find(string.sub(digits, places + 1), '[1-9]') and 1 or 0
  return tonumber(string.sub(digits .. '000000', 1, places)) + rest
end

record_times.LATEST_US = 253402300800000000  -- the year 10000

-- Read a time. `time_zone` is 'UTC' where texts without an offset are in UTC, or '' where that is not known; it is not guessed. Returns
-- microseconds since 1970 and the form of the text for record_times.write; else nil and why: 'naive' (no offset) | 'early' (before
-- 1970, as programs write for no time) | 'late' (from the year 10000) | 'unreadable'.
function record_times.read(text, time_zone)
  local whole, digits = string.match(text, '^(%d+)%.?(%d*)$')
  if whole and #whole <= 16 then
    local number, is_ms = tonumber(whole), tonumber(whole) >= record_times.FIRST_MS
    local us = is_ms and number * 1000 + fraction_us(digits, 3) or number * 1000000 + fraction_us(digits, 6)
    if us >= record_times.LATEST_US then return nil, 'late' end
    return us, {unit = is_ms and 'ms' or 's', digits = #digits}
  end
  local ms = times.parse(text)
  if not ms or string.sub(text, 1, 4) == '0000' then return nil, 'unreadable' end
  if ms < 0 then return nil, 'early' end
  digits = string.match(text, '^%.(%d+)', 20) or ''
  local zone = string.sub(text, 20 + (digits ~= '' and #digits + 1 or 0))
  if zone == '' and time_zone ~= 'UTC' then return nil, 'naive' end
  local sign, hours, minutes = string.match(zone, '^([+-])(%d%d):?(%d%d)$')
  local shift_s = sign and (tonumber(hours) * 60 + tonumber(minutes)) * (sign == '+' and 60 or -60) or 0
  return math.floor(ms / 1000) * 1000000 + fraction_us(digits, 6),
    {unit = 'iso', digits = #digits, between = string.sub(text, 11, 11), zone = zone, shift_s = shift_s}
end

-- Return a time as text in the form of another one, as record_times.read returned it.
function record_times.write(us, form)
  local unit_us = form.unit == 'ms' and 1000 or 1000000
  local whole = math.floor(us / unit_us)
  local fraction = string.format(form.unit == 'ms' and '%03d' or '%06d', us - whole * unit_us)
  fraction = string.sub(fraction .. string.rep('0', form.digits), 1, form.digits)
  if form.digits > 0 then fraction = '.' .. fraction end
  if form.unit ~= 'iso' then return string.format('%.0f', whole) .. fraction end
  local text = times.text((whole + form.shift_s) * 1000)
  return string.sub(text, 1, 10) .. form.between .. string.sub(text, 12, 19) .. fraction .. form.zone
end

return record_times
