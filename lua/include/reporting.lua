-- @include store
-- After the server was restarted or emptied the nodes have one timeout to report what they have and what of it is lent.
local node_timeout_ms = tonumber(opened[6] or '')
local reporting = opened[8] and node_timeout_ms and clock_ms - opened[8] < node_timeout_ms
