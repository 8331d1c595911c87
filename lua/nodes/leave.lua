-- A node leaves, or an operator removes it: its slots are withdrawn and lent ones ended, at once. Safe to repeat. A process
-- that is not the node, because another has taken over, ends nothing.
-- Returns {'left' | 'unknown' | 'superseded', slots dropped, {slots whose grant ended}, slots left for the next bite}
local id    = ARGV[1]
local part  = ARGV[2]
local limit = tonumber(ARGV[3])
local incarnation = ARGV[4]          -- '' of plain clients and of operators
-- @include remove_node
-- @include serve
-- @include speaker
local known = redis.call('SISMEMBER', key_nodes, id) == 1
local current = redis.call('HGET', key_duty(part), 'incarnation')
if speaker(part, incarnation, current) ~= 'own' then return {'superseded', 0, {}, 0} end
if known and incarnation ~= '' and current then retire_incarnation(part, current) end
redis.call('ZREM', key_drain_deadlines, id)
if known then note('node.left', 'node', id) end
local dropped, ended, left = remove_node(id, part, limit)
serve_opened()
return {known and 'left' or 'unknown', dropped, ended, left}
