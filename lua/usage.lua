-- Usage: what is noted of a lease when it ends.
local usage = {}

-- Return the text that says when a lease began that is made now, for a ticket that was entered at this instant, nil if not known.
function usage.began(entered_ms)
  local waited_ms = entered_ms and math.max(0, store.now_ms - entered_ms) or 0
  return numbers.whole(store.now_ms) .. '|' .. numbers.whole(waited_ms)
end

-- Return the entry of a lease that ends now, for usage_days.add_lease. record: as of slots.read. Of a lease that another program made,
-- its session says when it began; nil where nothing says it.
local noted_ms, now_text  -- the last instant, and its text between two separators
function usage.entry(record)
  local began = record.began
  if not began then
    local ms = times.parse(redis.call('HGET', keys.session(record.slot), 'borrowedAtUtc') or '')
    if not ms then return nil end
    began = numbers.digits(ms)
  end
  local used = record.active_ms and numbers.digits(store.now_ms - (store.clock_ms - tonumber(record.active_ms))) or ''
  if noted_ms ~= store.now_ms then noted_ms, now_text = store.now_ms, '\31' .. numbers.whole(store.now_ms) .. '\31' end
  return began .. now_text .. used .. '\31' .. record.slot .. '\31' .. (record.node or '') .. '\31'
    .. (record.label or '') .. '\31' .. (record.team or '') .. '\31' .. (record.user or '')
end

-- Note that a lease ends now, before its session is deleted; usage/fold adds it to the figures. One that no caller got is not noted.
-- A list that cannot be written makes no call fail.
function usage.note_end(record)
  local entry = usage.entry(record)
  if entry then redis.pcall('RPUSH', keys.usage_ended, entry) end
end

return usage
