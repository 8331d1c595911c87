-- @include key_part
-- What a list item says: its slot id and node id as the document has them, nil where it names none.
-- Text that is not a JSON object is searched for the compact fragments that nodes write.
local function read_item(item)
  local ok, document = pcall(cjson.decode, item)
  if ok and type(document) == 'table' then
    local slot, node = document.browserId, document.nodeId
    if type(slot) ~= 'string' or not string.find(slot, '%S') then slot = document.slotId end
    if type(slot) ~= 'string' or not string.find(slot, '%S') then slot = nil end
    if type(node) ~= 'string' then node = '' end
    local idle = tonumber(document.idleTimeoutSeconds)
    if idle and not (idle >= 0 and idle <= 86400) then idle = nil end
    return slot and key_part(slot), node, idle and string.format('%d', idle * 1000) or ''
  end
  local slot = string.match(item, '"browserId":"([^"]+)"')
  return slot and key_part(slot), string.match(item, '"nodeId":"([^"]*)"') or '', ''
end

-- What an item without a slot id is kept under, so that it goes with its node.
local function nameless(item)
  return 'nameless-' .. redis.sha1hex(item)
end
-- @include glance
