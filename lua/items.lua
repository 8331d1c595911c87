-- Items: the JSON texts that nodes and other programs put into the lists of a pool, one for each slot.
local items = {}

-- Return a text value of an item as it is, and a number as it is written in the item; nil for any other value.
local function text_of(value, name, item)
  if type(value) ~= 'number' then return type(value) == 'string' and value or nil end
  local written = string.match(item, '"' .. name .. '"%s*:%s*(%-?%d[%w%.%+%-]*)')
  return written and tonumber(written) == value and written or string.format('%.17g', value)
end

-- Read an item. Returns its slot id as part of a key or nil, its node id or '', and its own idle time in ms as text or ''. An item that
-- is no JSON object is searched for the compact fragments that nodes write. hub/capacity/models.py reads items alike.
function items.read(item)
  local ok, document = pcall(cjson.decode, item)
  if ok and type(document) == 'table' then
    local slot = text_of(document.browserId, 'browserId', item)
    if not (slot and string.find(slot, '%S')) then slot = text_of(document.slotId, 'slotId', item) end
    if not (slot and string.find(slot, '%S')) then slot = nil end
    local idle = tonumber(document.idleTimeoutSeconds)
    if idle and not (idle >= 0 and idle <= 86400) then idle = nil end
    return slot and ids.key_part(slot), text_of(document.nodeId, 'nodeId', item) or '',
      idle and string.format('%d', idle * 1000) or ''
  end
  local slot = string.match(item, '"browserId":"([^"]+)"')
  return slot and ids.key_part(slot), string.match(item, '"nodeId":"([^"]*)"') or '', ''
end

-- Return the id under which an item without a slot id is kept, so that it is removed with its node.
function items.nameless(item)
  return 'nameless-' .. redis.sha1hex(item)
end

-- Return the slot id of an item, without parsing the JSON where possible; the record of that slot says whether the id is right.
function items.glance(item)
  local _, at = string.find(item, '"browserId"', 1, true)
  local slot = at and string.match(item, '^%s*:%s*"([%w%-_%.]+)"', at + 1)
  if slot then return slot end
  return (items.read(item))
end

return items
