-- Check whether members belong into the private indexes that hold them. Changes nothing.
-- Returns per member {} | {'stray'}
command.read_unclocked('doctor/check_members', {
  '...members',  -- per member: kind of index, what the index is about, member
}, function(_, argv)
  local answers = {}
  for i = 1, #argv, 3 do
    local kind, owner, member = argv[i], argv[i + 1], argv[i + 2]
    local stray = indexes.lists(kind, owner, member) and not indexes.belongs(kind, owner, member)
    answers[#answers + 1] = stray and {'stray'} or {}
  end
  return answers
end)
