-- The reserve: a share of the memory of Redis that is kept for nodes, leases and ends. Commands that only add are refused before they
-- use it.
local reserve = {}

local SHORT = 256  -- bytes that stay of an error whose text is cut; a text of twice as many is never cut
local is_bounded = true  -- whether this server had a memory limit when `look` ran last: without one `refusal` does not ask

-- Return the bytes that count towards the memory limit of Redis, and the limit, 0 for none. Redis does not count its buffers for
-- replicas and for the append-only file.
function reserve.look()
  local said = redis.pcall('INFO', 'memory')
  if type(said) ~= 'string' then said = '' end  -- a store in memory, without a Redis server, has no INFO
  local function read(name) return tonumber(string.match(said, '\n' .. name .. ':(%d+)') or 0) end
  local most = read('maxmemory')
  is_bounded = most > 0
  return read('used_memory') - read('mem_not_counted_for_evict'), most
end

-- Return whether so many bytes more would use the reserve, or more than the limit where nothing is kept; then what `look` returns.
function reserve.would_use(bytes)
  if not is_bounded then return false end
  local used, most = reserve.look()
  return most > 0 and used + bytes > most * (1 - (allowances.of('reserve') or 0) / 100), used, most
end

-- Return the text of an error as it may be stored: only its beginning where the whole text would use the reserve. Reports of failures
-- are never refused, so nothing else bounds what they add.
function reserve.shortened(text)
  if #text <= 2 * SHORT or not reserve.would_use(#text) then return text end
  local whole = string.gsub(string.sub(text, 1, SHORT), '[\192-\255][\128-\191]*$', '')  -- no half of a character of UTF-8
  return whole .. ' ... (cut: Redis had no memory left but the reserve)'
end

-- Return the refusal of a command with these arguments, and so many bytes to follow, if that would use the reserve, else nil.
function reserve.refusal(arguments, later)
  local adds = later
  for _, text in ipairs(arguments) do adds = adds + #text end
  local is_full, used, most = reserve.would_use(adds)
  if is_full then
    return redis.error_reply('FULL ' .. numbers.digits(used) .. ' of ' .. numbers.digits(most) .. ' bytes; nothing was done')
  end
end

return reserve
