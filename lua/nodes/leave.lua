-- A node leaves, or an operator removes it: its slots are withdrawn and lent ones ended, at once. Safe to repeat.
-- Returns {'left' | 'unknown', slots dropped, {slots whose grant ended}, slots left for the next bite}
local id    = ARGV[1]
local part  = ARGV[2]
local limit = tonumber(ARGV[3])
-- @include remove_node
-- @include serve
local known = redis.call('SISMEMBER', key_nodes, id) == 1
redis.call('ZREM', key_drain_deadlines, id)
if known then note('node.left', 'node', id) end
local dropped, ended, left = remove_node(id, part, limit)
serve_opened()
return {known and 'left' or 'unknown', dropped, ended, left}
