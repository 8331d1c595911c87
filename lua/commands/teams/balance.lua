-- Do a round of the teams: recall leases where a team lacks its guarantee, and let those go that nobody lacks any more. Safe to repeat.
-- Returns {'ok', number of the last change of the rows or ''}
command.change('teams/balance', {}, function()
  if store.settle_left_ms <= 0 then team_rounds.balance() end
  return {'ok', redis.call('HGET', keys.store, 'teams_number') or ''}
end)
