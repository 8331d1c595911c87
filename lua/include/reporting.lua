-- @include store
-- After the server was restarted or emptied the nodes have one timeout to report what they have and what of it is lent.
local node_timeout_ms = tonumber(opened[6] or '')
local reporting = opened[8] and node_timeout_ms and clock_ms - opened[8] < node_timeout_ms
-- The same time is given to a store that is new: all hubs may be, too, while nodes and borrowers are not. After it what
-- the store says is all there is: nothing that was lent before is taken for lent any more.
local hearing = reporting or (opened[12] and node_timeout_ms and clock_ms - opened[12] < node_timeout_ms)
