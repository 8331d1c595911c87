-- Read what the slots are like that may serve a label, pool by pool, at most 1,000 classes in all; changes nothing.
-- Returns {pool, class, attributes as JSON, slots, free slots, pool, ...}
command.read('capacity/attributes', {
  'label',
}, function(a)
  local found, wild = {}, turns.is_wild(a.label)

  local function add(pool)
    local of = lenient.call({}, 'HGETALL', keys.pool_classes(pool))
    for i = 1, #found < 5000 and #of or 0, 2 do
      local class = of[i]
      local attributes = redis.call('HGET', keys.slot_class(class), 'attributes') or '{}'
      local free = redis.call('ZCARD', keys.free_in(pool .. ' ' .. class))
      for _, fact in ipairs({pool, class, attributes, tonumber(of[i + 1]), free}) do found[#found + 1] = fact end
    end
  end

  if wild then
    local lead = string.match(a.label, '^([^*]*):%*')
    local from, upto = lead and '[' .. lead .. ':' or '-', lead and '(' .. lead .. ';' or '+'
    for _, pool in ipairs(redis.call('ZRANGE', keys.pools, from, upto, 'BYLEX', 'LIMIT', 0, 1000)) do
      if pools.wild_serves(a.label, pool) then add(pool) end
    end
    return found
  end
  local stems = store.trailing == '1' and turns.stems(a.label) or {a.label}
  for i = #stems, 1, -1 do add(stems[i]) end
  if store.prefix == '1' then
    local from, upto = '[' .. a.label .. ':', '(' .. a.label .. ';'
    for _, pool in ipairs(redis.call('ZRANGE', keys.pools, from, upto, 'BYLEX', 'LIMIT', 0, 1000)) do add(pool) end
  end
  return found
end)
