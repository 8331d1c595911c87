-- Numbers as text, where a Lua number would round them or cost too much.
local numbers = {}

-- Whether a token is above another; both are decimal text with more digits than a Lua number holds.
function numbers.above(token, other)
  return #token > #other or (#token == #other and token > other)
end

-- A whole number as text. An argument of a command that is a Lua number costs as much as a command: Redis writes it out
-- with 17 digits.
function numbers.whole(number) return string.format('%d', number) end

-- A number of microseconds as text; Lua's own would round it.
function numbers.digits(us) return string.format('%.0f', us) end

-- The number that a text is, which was `field` in the last call as well: what is written as it was then is not read again.
local texts, read = {}, {}
function numbers.again(field, text)
  if texts[field] ~= text then texts[field], read[field] = text, tonumber(text) end
  return read[field]
end

return numbers
