-- Allowances: the limits that the hubs were given for the memory of Redis that users, rooms and commands of `command.add` may take.
local allowances = {}

local said, of = nil, {}

-- Read the limits from the text that the hubs keep in the record of the store, such as 'reserve=10 tasks=1073741824'. The text is
-- parsed only when it differs from the text of the call before.
function allowances.read(text)
  if text == said then return end
  said, of = text, {}
  for name, number in string.gmatch(text, '(%l+)=(%d+)') do of[name] = tonumber(number) end
end

-- Return the limit with this name as a number; nil where no hub has given one.
function allowances.of(name) return of[name] end

return allowances
