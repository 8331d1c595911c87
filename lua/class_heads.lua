-- Class heads: which classes have free slots in a pool, and how long their first slots have been free.
local class_heads = {}

local FEW, PAGE = 32, 16  -- classes that are asked for by name; of more, how many of the classes of a pool are read at a time

-- Return an iterator over those of some classes that have free slots in a pool: the class, and since when its first slot is free or an
-- earlier instant, the earliest first. `among` is a list of few classes, or what `classes.suiting` returns.
function class_heads.of(pool, among)
  local key, left, page = keys.free_classes(pool), {}, #among > FEW and 0
  if #among > 0 and not page then
    for i, bound in ipairs(redis.call('ZMSCORE', key, unpack(among))) do
      if bound then left[#left + 1] = {among[i], tonumber(bound)} end
    end
  end
  return function()
    while page and #left == 0 do
      local some = redis.call('ZRANGE', key, page, page + PAGE - 1, 'WITHSCORES')
      page = #some == 2 * PAGE and page + PAGE
      for i = 1, #some, 2 do
        if among[some[i]] then left[#left + 1] = {some[i], tonumber(some[i + 1])} end
      end
    end
    local first = 1
    for i = 2, #left do
      if left[i][2] < left[first][2] or (left[i][2] == left[first][2] and left[i][1] < left[first][1]) then first = i end
    end
    local head = table.remove(left, first)
    if head then return unpack(head) end
  end
end

return class_heads
