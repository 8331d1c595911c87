-- To which node a slot belongs, and conflicts of two nodes about one.
local belonging = {}

local LAPSES_MS, MOST = 3600000, 100

-- Note that `other` offers a slot that is, or is by its id, of `node`: the last one of each other node, of a hundred at most,
-- for an hour. The same two nodes make one event in that time.
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

-- Whether the id is the one that the hub gives to a slot of this node in this pool: the node, the label with dots, a number.
local function is_named_for(slot, node, pool)
  local begins = node .. '-' .. string.gsub(pool, ':', '.') .. '-'
  return string.sub(slot, 1, #begins) == begins and string.find(slot, '^[1-9]%d*$', #begins + 1)
end

-- The node that the id of a slot names, other than the one that offers it: on the books, or with a token. Where several
-- are named it is the longest; one that is shorter than the id of the node that offers it is no other, for ids may begin alike.
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

-- Whether a node may put a slot on offer that is not its own on the record: nil, or the word that refuses it and the other
-- node. A slot that belongs to it by its id changes hands unless it is lent; then it does so when its lease ends.
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
