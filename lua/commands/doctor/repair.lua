-- Check a subject again, and repair it if it is still broken. Safe to repeat.
-- Returns {'ok', number of tasks of a removed worker that are left for `workers/bury`, else 0}
command.change('doctor/repair', {
  'kind',        -- kind of the subject: a name in doctor.repairs
  '...subject',  -- the arguments of that repair
}, function(a, argv)
  store.job_terms = true
  local left = doctor.repairs[a.kind](unpack(argv, 2)) or 0
  limit_rooms.let_others_in()
  serving.opened()
  return {'ok', left}
end)
