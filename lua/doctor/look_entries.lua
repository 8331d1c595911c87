-- Look whether members belong into the indexes of the jobs API that hold them. Changes nothing.
-- Returns per member {} | {'stray'}
-- @rest members                     per member: kind of index, what the index is about, member
-- @include job_entries
local answers = {}
for i = 1, #ARGV, 3 do
  local kind, owner, member = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local stray = entry_listed(kind, owner, member) and not entry_belongs(kind, owner, member)
  answers[#answers + 1] = stray and {'stray'} or {}
end
return answers
