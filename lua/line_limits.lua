-- Line limits: how many lines of tickets that want something there may be, over all labels: a new class is held against each.
local line_limits = {}

local MOST, MOST_OF_USER = 1000, 250  -- the latter are lines whose first ticket is of one user

-- Return the most lines that there may be, or be begun by a user, if a newcomer would exceed that; else nil.
function line_limits.exceeded(alternatives, holder)
  local new, all = 0, redis.call('SCARD', keys.all_lines)
  for _, each in ipairs(alternatives) do
    if each[2] ~= '' and redis.call('SISMEMBER', keys.lines(each[1]), each[2]) == 0 then new = new + 1 end
  end
  if new == 0 then return nil end
  if all + new > MOST then return MOST end
  local user = holders.of(holder).user_id
  if user == '' or all + new <= MOST_OF_USER then return nil end
  for _, line in ipairs(redis.call('SMEMBERS', keys.all_lines)) do
    local first = redis.call('ZRANGE', keys.want_line((string.gsub(line, '\t', ' '))), 0, 0)[1] or ''
    if holders.of(redis.call('HGET', keys.ticket(first), 'holder') or '').user_id == user then new = new + 1 end
  end
  return new > MOST_OF_USER and MOST_OF_USER or nil
end

return line_limits
