-- Write an entry of the audit log down. Returns {'ok'}
command.change('store/audit', {
  'refused',      -- '1' when it is about a call that was refused: those have a list of their own
  'entry',
  'max: number',  -- so many are kept
}, function(a)
  local written = audit.write(a.refused == '1' and keys.refusals or keys.audit, a.entry, a.max)
  return type(written) == 'table' and written or {'ok'}
end)
