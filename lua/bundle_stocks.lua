-- Stocks for bundles: whether what nodes have published is enough for one at all.
local bundle_stocks = {}

-- Return the number of the first part of which fewer slots are published than are wanted, and how many are, other
-- parts may want some of them; 0 and the number of nodes with
-- such slots where no node has all that is to be on one; nil for enough. Of many nodes only some are looked at: then there are enough.
function bundle_stocks.lacking(wish)
  local cells = bundle_cells.published(wish)
  local part, there = bundle_plans.lacking(wish, bundle_plans.assign(wish, cells, true), cells)
  if part or not wish.same_node then return part, there end
  local fit, whole, nodes = bundle_nodes.published(wish)
  if whole and not fit[1] then return 0, nodes end
end

return bundle_stocks
