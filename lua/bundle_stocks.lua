-- Stocks for bundles: whether what nodes have published is enough for one at all.
local bundle_stocks = {}

-- Return the number of the first part for which fewer slots are published than are wanted, and how many suit it, some of which other parts
-- may want; 0 and the number of nodes with such slots where no node has all that is to be on one; nil for enough. Of many nodes only some
-- are looked at: then there are enough.
function bundle_stocks.lacking(wish)
  local cells = bundle_cells.published(wish)
  local of = bundle_plans.assign(wish, cells, true)
  if wish.unsure then return nil end
  for u, unit in ipairs(wish.units) do
    local there = 0
    for _, cell in ipairs(of[u] and {} or cells) do there = there + (cell.suits[unit.part] and math.max(0, cell.room) or 0) end
    if not of[u] then return unit.part, there end
  end
  if not wish.same_node then return nil end
  local fit, whole, nodes = bundle_nodes.published(wish)
  if whole and not fit[1] then return 0, nodes end
end

return bundle_stocks
