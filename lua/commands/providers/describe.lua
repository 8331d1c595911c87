-- Read providers; changes nothing. Returns per provider {full name, id, time made, schema, content type, worker, user} | 0 (unknown)
command.read('providers/describe', {
  '...names',
}, function(_, argv)
  local answers = {}
  for i, full in ipairs(argv) do
    local p = lenient.fields(keys.provider(full), 'id', 'at', 'schema', 'type', 'worker', 'user')
    answers[i] = p[1] and tonumber(p[2] or '') and {full, unpack(p)} or 0
  end
  return answers
end)
