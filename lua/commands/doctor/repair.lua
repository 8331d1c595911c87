-- Check a subject again, and repair it where it is still broken. Safe to repeat.
-- Returns {'ok', tasks of a worker that are left for `workers/bury`}
command.change('doctor/repair', {
  'kind',        -- of the subject: one of doctor.repairs
  '...subject',  -- the arguments of that repair
}, function(a, argv)
  return {'ok', doctor.repairs[a.kind](unpack(argv, 2)) or 0}
end)
