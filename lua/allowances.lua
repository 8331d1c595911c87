-- Allowances: what the hubs were told that users, rooms and commands that only add may take of the memory of Redis.
local allowances = {}

local said, of = nil, {}

-- Take the record's text, such as 'reserve=10 tasks=1073741824': it is read once, until it is another.
function allowances.read(text)
  if text == said then return end
  said, of = text, {}
  for name, number in string.gmatch(text, '(%l+)=(%d+)') do of[name] = tonumber(number) end
end

-- Returns the limit of this name, nil where no hub has said one.
function allowances.of(name) return of[name] end

return allowances
