-- Records of other programs: hashes that an index names, on a Redis server of those programs.
local records = {}

-- Read the time of that server, and note the index and its type for this call.
function records.begin(index)
  local time = redis.call('TIME')
  records.now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
  records.index, records.kind = index, redis.call('TYPE', index).ok
end

-- Return whether a record belongs to the source. `where` is JSON: field -> the text that the record must hold.
function records.is_wanted(key, where)
  if where == '{}' then return true end
  for field, text in pairs(cjson.decode(where)) do
    if redis.call('HGET', key, field) ~= text then return false end
  end
  return true
end

-- Return a record that has this status: its id, key, time of the last update in us, form of the time and attempts. Returns nil for a
-- record with another status, that its index does not name, or whose time cannot be read. The score of a sorted index is a time of the
-- last update as well: the later of the two counts.
function records.read(id, key, fields, status)
  local score
  if records.kind == 'zset' then score = redis.call('ZSCORE', records.index, id) end
  if not score and not (records.kind == 'set' and redis.call('SISMEMBER', records.index, id) == 1) then return nil end
  local found = redis.pcall('HMGET', key, fields.status, fields.updated_at, fields.attempts)
  if found.err then
    if string.find(tostring(found.err), 'WRONGTYPE', 1, true) then return nil end  -- a key of another type keeps back no other record
    error(found)
  end
  if found[1] ~= status or not found[2] or not records.is_wanted(key, fields.where) then return nil end
  local us, form = record_times.read(found[2], fields.time_zone)
  if not us then return nil end
  local t = {id = id, key = key, us = us, form = form}
  if score then
    score = tonumber(score)
    t.score_unit_us = math.abs(score) >= record_times.FIRST_MS and 1000 or 1000000
    if score * t.score_unit_us >= record_times.LATEST_US then return nil end  -- a score of +inf means: never stuck
    t.us = math.max(us, math.floor(score * t.score_unit_us + 0.5))
    t.score_is_whole = score == math.floor(score)
  end
  t.attempts = fields.attempts ~= '' and math.min(2 ^ 53, tonumber(string.match(found[3] or '', '^%d+$')) or 0) or 0
  return t
end

return records
