-- The attempts of a request.
local attempts = {}

-- The attempts that have fetched a lease, of one request, separated by commas. Each may have been delivered, and it is not known
-- in which order they were sent: the lease is taken back when the callers of all of them are gone.
function attempts.has(owners, attempt)
  return string.find(',' .. owners .. ',', ',' .. attempt .. ',', 1, true) ~= nil
end

function attempts.add(owners, attempt)
  if #owners > 300 then attempt = '*' end  -- a caller that asks that often is there: nothing is undone
  return attempts.has(owners, attempt) and owners or owners .. ',' .. attempt
end

function attempts.others(owners, attempt)
  local others = {}
  for owner in string.gmatch(owners, '[^,]+') do
    if owner ~= attempt then others[#others + 1] = owner end
  end
  return table.concat(others, ',')
end

return attempts
