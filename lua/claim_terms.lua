-- Terms of a claim: what stands between a worker and the oldest tasks of its jobs. Limits of a job keep tasks, and tasks that need slots
-- wait for them.
local claim_terms = {}

claim_terms.NONE = {ready = function() return 'take' end, start = function() end, leave = function() end}  -- where no job has any

local LOOKS = 200  -- tasks that limits keep and that one call looks at

-- Return the terms of one call. a: worker bundle job holder slots_ms, as of tasks/claim; backlogs: jobs with one. Members: most and
-- only, how many and which tasks may be taken, where the caller's own wish does not count; ready(t), as claims.oldest_first wants it;
-- start(t), for each task that is taken; leave(), at the end; skips, whether a task was looked at and not taken; lacking, the first job
-- that lacks slots, with reply(); again.
function claim_terms.new(a, backlogs)
  local terms, kept, found, lacks = {}, 0, nil, {}
  for _, full in ipairs(backlogs) do
    if redis.call('SISMEMBER', keys.worker_jobs(a.worker), full) == 1 then terms.again = true end
  end
  if a.bundle ~= '' and not waited_slots.is_free(a.bundle) then a.bundle = '' end  -- a task has it already, or it has ended
  if a.bundle ~= '' then
    terms.most, terms.only = 1, {a.job}
    local serves = redis.call('SISMEMBER', keys.worker_jobs(a.worker), a.job) == 1
    if not (serves and waited_slots.fits(a.bundle, task_slots.wish(a.job))) then terms.most = 0 end
  end

  function terms.ready(t)
    if kept == LOOKS then
      terms.again = true
      return 'skip'
    end
    if lacks[t.job] then return 'skip' end
    terms.skips = true
    if t.limited and redis.call('ZSCORE', keys.limit_held(t.limited), t.id) then return 'held' end  -- it made way for another in this call
    if limited_tasks.keep_out(t, true) then
      kept = kept + 1
      return 'held'
    end
    local wish = a.bundle == '' and task_slots.wish(t.job)
    if not wish then return 'take' end
    wish.team = holders.of(a.holder).team
    found = a.holder ~= '' and bundle_supply.find(wish) or nil
    if found then return 'take' end
    lacks[t.job] = true
    if a.holder ~= '' then terms.lacking = terms.lacking or t.job end
    return 'skip'
  end

  function terms.start(t)
    limit_counts.start(t)
    if a.bundle ~= '' then
      task_slots.adopt(t, a.bundle)
      a.bundle, terms.used = '', true
    elseif found then
      task_slots.lend(t, task_slots.wish(t.job), found, {holder = a.holder, ttl_ms = a.slots_ms})
      found = nil
    end
  end

  function terms.leave()
    task_slots.give_up(a.bundle)
    if a.bundle ~= '' or terms.used then redis.call('HDEL', keys.worker(a.worker), 'ticket') end
    limit_rooms.let_others_in()
  end

  -- The ticket stays the same while what is needed does, so that the worker keeps its place from claim to claim.
  function terms.reply()
    local needs = redis.call('HGET', keys.job(terms.lacking), 'needs')
    local digest = string.sub(redis.sha1hex(terms.lacking .. needs), 1, 12)
    local known = redis.call('HGET', keys.worker(a.worker), 'ticket') or ''
    local ticket = string.match(known, '^' .. digest .. ' (.+)$')
    if not ticket or waited_slots.are_over(ticket) then
      ticket = 'c' .. lease_texts.next_token() .. string.sub(redis.sha1hex(a.worker), 1, 12)
      redis.call('HSET', keys.worker(a.worker), 'ticket', digest .. ' ' .. ticket)
    end
    return {'lacking', terms.lacking, needs, ticket}
  end

  return terms
end

return claim_terms
