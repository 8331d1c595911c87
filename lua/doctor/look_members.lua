-- Look whether members belong into the private indexes that hold them. Changes nothing.
-- Returns per member {} | {'stray'}
-- @rest members                     per member: kind of index, what the index is about, member
-- @include belongs
local answers = {}
for i = 1, #ARGV, 3 do
  local kind, owner, member = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local stray = listed_in(kind, owner, member) and not belongs(kind, owner, member)
  answers[#answers + 1] = stray and {'stray'} or {}
end
return answers
