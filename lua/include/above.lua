-- Whether a token is above another; both are decimal text with more digits than a Lua number holds.
local function above(token, other)
  return #token > #other or (#token == #other and token > other)
end
