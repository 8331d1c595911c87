-- The slot id of a list item by a quick look, to find the record that settles it.
local function glance(item)
  local _, at = string.find(item, '"browserId"', 1, true)
  local slot = at and string.match(item, '^%s*:%s*"([%w%-_%.]+)"', at + 1)
  if slot then return slot end
  -- @include item
  return (read_item(item))
end
