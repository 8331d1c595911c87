-- Write an entry of the audit log. Returns {'ok'} | the error of Redis where it cannot be written
command.change('store/audit', {
  'refused',      -- '1' for an entry about a refused call: these have a list of their own
  'entry',        -- a JSON object without its time
  'max: number',  -- most entries of the list, about
}, function(a)
  local written = audit.write(a.refused == '1' and keys.refusals or keys.audit, a.entry, a.max)
  return type(written) == 'table' and written or {'ok'}
end)
