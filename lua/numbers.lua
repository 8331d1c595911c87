-- Numbers as texts, where a Lua number would be rounded or would cost too much.
local numbers = {}

-- Return whether a token is above another one. Both are decimal texts with more digits than a Lua number holds.
function numbers.above(token, other)
  return #token > #other or (#token == #other and token > other)
end

-- Return a whole number as text. Passing a Lua number to a Redis command costs as much time as a command: Redis writes it with 17
-- digits.
function numbers.whole(number) return string.format('%d', number) end

-- Return a number of microseconds as text; Lua's own conversion would round it.
function numbers.digits(us) return string.format('%.0f', us) end

-- Return the number that a text stands for. The text of the last call for the same `field` is not parsed again.
local texts, read = {}, {}
function numbers.again(field, text)
  if texts[field] ~= text then texts[field], read[field] = text, tonumber(text) end
  return read[field]
end

-- Return whether a number or a text is below another; texts by code points, where the order of Lua's `<` is that of a locale.
function numbers.below(left, right)
  if type(left) == 'number' then return left < right end
  for i = 1, math.min(#left, #right) do
    local byte, its = string.byte(left, i), string.byte(right, i)
    if byte ~= its then return byte < its end
  end
  return #left < #right
end

return numbers
