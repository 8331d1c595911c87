-- The reserve: a share of the memory of Redis that is kept for nodes, leases and ends. Commands that only add are refused before they
-- use it.
local reserve = {}

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

-- Return the refusal of a command with these arguments if it would use the reserve, else nil. later: bytes that further calls of the
-- same request will add; -1 in such a call, which is not refused any more.
function reserve.refusal(arguments, later)
  local percent = allowances.of('reserve') or 0
  if percent == 0 or not is_bounded or later < 0 then return end
  local used, most = reserve.look()
  local adds = later
  for _, text in ipairs(arguments) do adds = adds + #text end
  if most > 0 and used + adds > most * (1 - percent / 100) then
    return redis.error_reply('FULL ' .. numbers.digits(used) .. ' of ' .. numbers.digits(most) .. ' bytes; nothing was done')
  end
end

return reserve
