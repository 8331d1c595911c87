-- Let tasks that were put off and are due into their queues. Safe to repeat. Returns {'ok', how many}
local limit = tonumber(ARGV[1])
-- @include queue
return {'ok', let_in(limit)}
