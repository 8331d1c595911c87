-- Belonging: which node a slot belongs to, and conflicts of two nodes that offer the same slot.
local belonging = {}

local LAPSES_MS, MOST = 3600000, 100

-- Note that the node `other` offers a slot that belongs to `node`, by its record or by its id. The last such slot of each `other` is
-- kept for an hour, of at most 100 nodes. The same two nodes make one event of the history in an hour.
local function note(slot, node, other, why)
  local of, at = string.match(redis.call('HGET', keys.conflicts, other) or '', '^[^|]*|(%d+)|(.*)$')
  redis.call('HSET', keys.conflicts, other, slot .. '|' .. numbers.digits(store.clock_ms) .. '|' .. node)
  redis.call('EXPIRE', keys.conflicts, keys.seconds.conflicts)
  if at == node and store.clock_ms - tonumber(of) < LAPSES_MS then return end
  history.note('slot.conflict', 'slot', slot, 'node', node, 'other', other, 'why', why)
  if redis.call('HLEN', keys.conflicts) <= MOST then return end
  local all, first = redis.call('HGETALL', keys.conflicts), {other, store.clock_ms}
  for i = 1, #all, 2 do
    local at_ms = tonumber(string.match(all[i + 1], '^[^|]*|(%d+)|') or 0)
    if at_ms < first[2] then first = {all[i], at_ms} end
  end
  redis.call('HDEL', keys.conflicts, first[1])
end

-- Return whether a slot id has the form that the hub gives to a slot of this node in this pool: the node, the label with dots for
-- colons, and a number, joined by hyphens.
local function is_named_for(slot, node, pool)
  local begins = node .. '-' .. string.gsub(pool, ':', '.') .. '-'
  return string.sub(slot, 1, #begins) == begins and string.find(slot, '^[1-9]%d*$', #begins + 1)
end

-- Return the other node that the id of a slot names: a node that is registered or has a token. Where the id begins with several such
-- names the longest one is returned; names that are not longer than that of the offering node, when the slot id begins with it, do not
-- count. Returns nil for none.
local function named(slot, node, pool)
  local whole = string.match(slot, '^(.+)%-[1-9]%d*$')
  if not whole or is_named_for(slot, node, pool) then return end
  local least = string.sub(slot, 1, #node + 1) == node .. '-' and #node or 0
  local names, held, at = {}, {}, string.find(whole, '-', least + 1, true)
  while at do
    local name = string.sub(whole, 1, at - 1)
    if #name > least and name ~= node and string.find(whole, '^.+%..', at + 1) then
      table.insert(names, 1, name)
      table.insert(held, 1, keys.node_tokens(name))
    end
    at = string.find(whole, '-', at + 1, true)
  end
  local known = #names > 0 and redis.call('SMISMEMBER', keys.nodes, unpack(names))
  local with_token = known and redis.call('EXISTS', unpack(held)) > 0
  for i, name in ipairs(names) do
    if known[i] == 1 or (with_token and redis.call('EXISTS', held[i]) == 1) then return name end
  end
end

-- Refuse a node that offers a slot which its record does not give to that node. Returns nil, or the word ('reserved' | 'taken' |
-- 'claimed') and the other node. A slot whose id names the offering node changes hands at once; while it is lent it is only noted as
-- claimed, and changes hands when its lease ends.
function belonging.refusal(record, node, part, pool)
  local slot = record.slot
  if not record.item then
    local other = named(slot, node, pool)
    if not other then return end
    note(slot, other, node, 'reserved')
    return 'reserved', other
  end
  local holder = record.node or ''
  if not is_named_for(slot, node, pool) or is_named_for(slot, holder, record.pool) then
    note(slot, holder, node, 'taken')
    return 'taken', holder
  end
  note(slot, node, holder, 'claimed')
  if record.place == 'lent' then
    redis.call('HSET', keys.slot(slot), 'claimed', part)
    return 'claimed', holder
  end
  slots.unlist(record.pool, record.item, record.place)
  slots.drop(slot, record.pool, record.part)
  history.slot('slot.withdrawn', record, 'claimed')
end

return belonging
