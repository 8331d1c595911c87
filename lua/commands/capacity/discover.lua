-- Find pools that another program has put slots into: the labels given, and a page of those already known.
-- Returns {'ok', pools opened, cursor of the next page or '0'}
command.change('capacity/discover', {
  'cursor',
  '...labels',
}, function(a, argv)
  local opened_pools = 0
  local page = redis.call('ZSCAN', keys.pools, a.cursor, 'COUNT', 500)
  local labels = {unpack(argv, 2)}
  for i = 1, #page[2], 2 do labels[#labels + 1] = page[2][i] end
  for _, label in ipairs(labels) do
    if redis.call('EXISTS', keys.available(label)) == 1 then
      if pools.open(label) then serving.pool(label) end
      opened_pools = opened_pools + 1
    end
  end
  return {'ok', opened_pools, page[1]}
end)
