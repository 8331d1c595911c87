-- @include store
-- @include key_part
-- Whether the node of a slot is not on the books, though the slot was taken in so long ago that it should be: its death
-- would be noticed by nobody. Slots that are about to be pruned are left to that.
local function unknown_node(record, patience_ms)
  if redis.call('SISMEMBER', key_nodes, record.node or '') == 1 then return false end
  if redis.call('HEXISTS', key_leaving, record.part) == 1 then return false end
  return clock_ms - tonumber(record.adopted_ms or '-inf') > patience_ms
end
