-- Look whether members belong into the private indexes that hold them. Changes nothing.
-- Returns per member {} | {'stray'}
-- @rest members                     per member: kind of index, what the index is about, member
-- @include belongs
local answers = {}
for i = 1, #ARGV, 3 do
  answers[#answers + 1] = belongs(ARGV[i], ARGV[i + 1], ARGV[i + 2]) and {} or {'stray'}
end
return answers
