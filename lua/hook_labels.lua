-- Hook labels: the patterns by which hooks choose what they are told of.
local hook_labels = {}

-- Return whether a label fits a pattern: a segment `*` stands for any one segment, and at the end for all that follow.
function hook_labels.fits(pattern, label)
  local next_segment = string.gmatch(label or '', '[^:]+')
  for wanted, at in string.gmatch(pattern, '([^:]+)()') do
    local segment = next_segment()
    if wanted == '*' and at > #pattern then return segment ~= nil end
    if not segment or wanted ~= '*' and wanted ~= segment then return false end
  end
  return next_segment() == nil
end

return hook_labels
