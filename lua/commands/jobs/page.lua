-- Read a page of several sorted sets taken together, newest members first; no member is in two of them. Changes nothing. Returns
-- {number of members in all of them, member, ...}
command.read_unclocked('jobs/page', {
  'limit: number',   -- most members of the page
  'offset: number',  -- members to skip
  '...lists',        -- keys of sorted sets
}, function(a, argv)
  local total, lists = 0, {}
  for i = 3, #argv do
    local size = lenient.call(0, 'ZCARD', argv[i])
    total = total + size
    if size > 0 then lists[#lists + 1] = argv[i] end
  end
  if a.limit == 0 or a.offset >= total then return {total} end
  if #lists == 1 then return {total, unpack(redis.call('ZRANGE', lists[1], a.offset, a.offset + a.limit - 1, 'REV'))} end

  -- Find the instant at which the page begins, so that as many members are younger as are skipped. It is found by halving: the lists
  -- can be long while a page is short.
  local function younger(than)
    local count = 0
    for _, key in ipairs(lists) do count = count + redis.call('ZCOUNT', key, string.format('(%.0f', than), '+inf') end
    return count
  end
  local top = '+inf'
  if a.offset > 0 then
    local low, high = -1, 0
    for _, key in ipairs(lists) do high = math.max(high, tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])) end
    while high - low > 1 do  -- younger(low) > offset >= younger(high)
      local middle = math.floor((low + high) / 2)
      if younger(middle) > a.offset then low = middle else high = middle end
    end
    top = string.format('%.0f', high)
  end
  local found = {}
  for _, key in ipairs(lists) do
    local some = redis.call('ZRANGE', key, top, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, a.limit, 'WITHSCORES')
    for i = 1, #some, 2 do found[#found + 1] = {some[i], tonumber(some[i + 1])} end
  end
  table.sort(found, function(one, other) return one[2] > other[2] end)
  local page = {total}
  for i = 1, math.min(a.limit, #found) do page[i + 1] = found[i][1] end
  return page
end)
