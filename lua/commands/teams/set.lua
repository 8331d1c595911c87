-- Change the row of a team for a pattern of pools, for all hubs; a row without members is removed. With the first or the last row of a
-- pattern what teams hold is counted anew, which takes some 5 us a lease, and with the first row of all who waits. Safe to repeat.
-- Returns {'ok', the row as JSON or '' (there is none now)} | {'full'} (there are `most` already)
command.change('teams/set', {
  'team',
  'pattern',
  'row',           -- JSON: guarantee, ceiling, weight, by; '' to remove it
  'most: number',  -- most rows
}, function(a)
  local field, before = a.pattern .. '\t' .. a.team, teams.all()
  local known = redis.call('HGET', keys.teams, field)
  if a.row ~= '' and not known and redis.call('HLEN', keys.teams) >= a.most then return {'full'} end
  local labels = redis.call('SRANDMEMBER', keys.team_labels(a.team), 32)
  if a.row == '' then
    if not known then return {'ok', ''} end
    redis.call('HDEL', keys.teams, field)
  else
    local row = cjson.decode(a.row)
    row.at = times.text(store.now_ms)
    redis.call('HSET', keys.teams, field, cjson.encode(row))
  end
  team_changes.note(lease_texts.next_token(), before)
  for _, label in ipairs(labels) do serving.label(label, true) end  -- the team may have room now; the review serves the others
  serving.opened()
  return {'ok', redis.call('HGET', keys.teams, field) or ''}
end)
