-- Read the figures of leases that are not over, up to now, in the way in which usage/fold adds them; changes nothing.
-- Returns per day {day and kind, name, figures, ...}
command.read('usage/running', {
  'kind',          -- 'user' | 'team' | 'label' | 'slot' | 'node'
  'days: number',  -- for how many days figures are kept
  '...slots',      -- a slot that is not lent is left out
}, function(a, argv)
  local added, answer = {}, {}
  for i = 3, #argv do
    local record = lenient.look({}, slots.read, argv[i])
    local entry = record.place == 'lent' and lenient.look(nil, usage.entry, record)
    if entry then usage_days.add_lease(added, entry, a.days) end
  end
  for id, names in pairs(usage_days.by_kind(added)) do
    if string.match(id, ':(.*)$') == a.kind then
      local row = {id}
      for name, sums in pairs(names) do row[#row + 1], row[#row + 2] = name, usage_days.text(sums) end
      answer[#answer + 1] = row
    end
  end
  return answer
end)
