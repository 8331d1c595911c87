-- Values in the payloads of tasks, by which limits tell tasks apart.
local payload_values = {}

-- Return the text of what a payload has at a path, the digest of a long one; '' where there is nothing or no single value.
local function value_at(payload, path)
  for name in string.gmatch(path, '[^.]+') do
    if type(payload) ~= 'table' then return '' end
    payload = payload[name]
  end
  local kind = type(payload)
  if kind == 'number' then
    local short = string.format('%.14g', payload)
    return tonumber(short) == payload and short or string.format('%.17g', payload)
  end
  local text = (kind == 'string' or kind == 'boolean') and tostring(payload) or ''
  return #text > 200 and 'sha1:' .. redis.sha1hex(text) or text
end

-- Return the values of a payload, a JSON text, at the paths of limits, as texts. Whole numbers of 16 digits or more are read as texts, for
-- doubles do not hold them.
function payload_values.at_paths(text, limits)
  local good, payload = pcall(cjson.decode, text)
  if string.find(text, '%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d') then
    local whole, quoted = pcall(cjson.decode, (string.gsub(text, '([:%[,]%s*)(-?%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d+)%f[^%d.eE]', '%1"%2"')))
    if whole then payload = quoted end
  end
  local values = {}
  for n, limit in ipairs(limits) do values[n] = limit.key and value_at(good and payload, limit.key) or '' end
  return values
end

return payload_values
