-- Find pools into which other programs have put slots, among the given labels and a page of the labels already known, and serve their
-- waiters. Returns {'ok', pools with free slots, cursor of the next page, '0' after the last}
command.change('capacity/discover', {
  'cursor',  -- '0' for the first page
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
