-- Where a borrow would stand in the line of a label if it came now. Returns {position, ms it would take or -1}
local label    = ARGV[1]
local priority = tonumber(ARGV[2])
-- @include store
-- @include ticket
-- @include arrival
local ahead = ahead_of(label, priority)
return {ahead + 1, estimate(label, ahead)}
