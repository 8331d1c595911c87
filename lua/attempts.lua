-- Attempts: the calls with which a caller repeats one request. `owners` lists, separated by commas, the attempts of a request that were
-- answered with its lease.
local attempts = {}

-- Return whether an attempt is one of the owners of a lease. The answer of each owner may have been delivered, and the order in which
-- they were sent is not known: the lease is taken back only when the callers of all owners are gone.
function attempts.has(owners, attempt)
  return string.find(',' .. owners .. ',', ',' .. attempt .. ',', 1, true) ~= nil
end

-- Return the owners with this attempt added; '*' is added instead when the list is longer than 300 characters.
function attempts.add(owners, attempt)
  if #owners > 300 then attempt = '*' end  -- no undo names '*': a caller that repeats so often is there, and its lease is not taken back
  return attempts.has(owners, attempt) and owners or owners .. ',' .. attempt
end

-- Return the owners without this attempt; '' when there is no other one.
function attempts.others(owners, attempt)
  local others = {}
  for owner in string.gmatch(owners, '[^,]+') do
    if owner ~= attempt then others[#others + 1] = owner end
  end
  return table.concat(others, ',')
end

return attempts
