-- A raw id as part of a key: ASCII outside letters, digits, - _ . becomes -, cut to 200 characters.
-- Bytes beyond ASCII are kept; ids that came over HTTP were sanitised in full by the caller.
local function key_part(id)
  local clean = string.gsub(id, '[^%w%-_%.\128-\255]', '-')
  if #clean <= 200 then return clean end
  local kept, position = 0, 1
  while position <= #clean and kept < 200 do
    local lead = string.byte(clean, position)
    position = position + (lead < 192 and 1 or lead < 224 and 2 or lead < 240 and 3 or 4)
    kept = kept + 1
  end
  return string.sub(clean, 1, position - 1)
end
