-- Find nodes whose id, labels or pools contain a text, in either case, among a stretch of all nodes; changes nothing. Returns {cursor
-- of the next stretch, '0' after the last, number of nodes looked at, id, ...}
command.read('nodes/find', {
  'text',
  'cursor',         -- '0' in the first call
  'count: number',  -- nodes of a stretch, about
}, function(a)
  local wanted = string.lower(a.text)
  local after, listed = unpack(redis.call('SSCAN', keys.nodes, a.cursor, 'COUNT', a.count))
  local answer = {after, #listed}
  for _, id in ipairs(listed) do
    local said = redis.call('HMGET', keys.node(ids.key_part(id)), 'Labels', 'Apps')
    local text = string.lower(table.concat({id, said[1] or '', said[2] or ''}, ' '))
    if string.find(text, wanted, 1, true) then answer[#answer + 1] = id end
  end
  return answer
end)
