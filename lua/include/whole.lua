-- A whole number as text. An argument of a command that is a Lua number costs as much as a command: Redis writes it out
-- with 17 digits.
local function whole(number) return string.format('%d', number) end
