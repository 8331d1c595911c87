"""Mistakes in what jobs need and in their limits."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

_FOLDER = "tests/jobs/"
_SLOTS, _LATE, _LIMITS, _LOST = (
    f"{_FOLDER}test_task_{name}.py" for name in ("slots", "slots_attacked", "limits", "terms_lost")
)
TERMS = (
    # -- slots
    Mistake(
        "claim_terms.lua", " and not waited_slots.is_free(a.bundle)", " and false",
        "slots that a task has are given to another task of its worker",
        "test_a_bundle_that_a_task_has_is_given_to_no_other", _LATE,
    ),
    Mistake(
        "waited_slots.lua", "#wish.units == #live and ", "",
        "a task starts with fewer slots than it needs",
        "test_a_bundle_that_has_lost_a_slot_is_no_slots_for_a_task", _LATE,
    ),
    Mistake(
        "waited_slots.lua", "pools.serves(unit.label, pool)", "true",
        "a task gets slots for what its job needed before",
        "test_slots_for_other_needs_than_the_job_has_now_are_given_back", _LATE,
    ),
    Mistake(
        "claim_terms.lua", "    task_slots.give_up(a.bundle)\n", "",
        "slots for which there is no task stay lent",
        "test_slots_of_a_claim_that_is_refused_are_given_back", _LATE,
    ),
    Mistake(
        "claim_terms.lua", "a.holder ~= '' and bundle_supply.find(wish) or nil", "bundle_supply.find(wish)",
        "a caller that may not borrow gets slots",
        "test_a_claim_that_may_borrow_nothing_leaves_tasks_that_need_slots", _SLOTS,
    ),
    Mistake(
        "claim_terms.lua", "    if lacks[t.job] then return 'skip' end\n",
        "    if next(lacks) then return 'skip' end\n",
        "a task that lacks slots keeps the tasks of other jobs",
        "test_a_task_without_slots_stays_in_its_queue_and_others_go_on", _SLOTS,
    ),
    Mistake(
        "commands/tasks/claim.lua", " and terms.skips and not terms.only then", " and false then",
        "a worker of many jobs gets nothing while the oldest task lacks slots",
        "test_a_worker_of_many_jobs_goes_on_with_those_that_lack_nothing", _LATE,
    ),
    Mistake(
        "outcomes.lua", "  if t.slots then task_slots.let_go(t) end\n", "",
        "the slots of a task that has ended stay lent",
        "test_a_claim_takes_the_slots_and_each_end_of_the_task_gives_them_back", _SLOTS,
    ),
    Mistake(
        "commands/tasks/fail_slotless.lua", "t.slots == bundle and ", "",
        "a slot that an attempt has lost ends the next attempt",
        "test_a_loss_that_is_told_late_does_not_end_the_next_attempt", _LATE,
    ),
    Mistake(
        "bundles.lua", "  if task and not call_state.task_ends then", "  if task and not by_holder then",
        "a task goes on without the slot that its worker has given back",
        "test_a_slot_that_its_worker_gives_back_alone_loses_the_attempt", _LATE,
    ),
    Mistake(
        "commands/workers/beat.lua", "      if worker[3] then task_renewals.renew(argv[i]) end\n", "",
        "the slots of a task lapse although its worker is heard",
        "test_the_heartbeats_of_a_worker_keep_the_slots_of_its_tasks_and_no_others", _LATE,
    ),
    # -- limits
    Mistake(
        "limited_tasks.lua", "      if room <= 0 then return group, due, limit end\n", "",
        "a limit keeps no task", "test_a_limit_by_key_keeps_tasks_of_one_value_and_no_others", _SLOTS,
    ),
    Mistake(
        "limited_tasks.lua", "  redis.call('HINCRBY', keys.job(t.job), 'later', 1)\n", "",
        "a task that a limit keeps does not count as put off",
        "test_limits_that_come_back_as_they_were_change_nothing", _LIMITS,
    ),
    Mistake(
        "job_limits.lua", "oldest + limit.per_ms <= store.clock_ms", "oldest <= store.clock_ms",
        "a rate forgets its starts at once", "test_a_rate_lets_so_many_tasks_start_in_its_time", _SLOTS,
    ),
    Mistake(
        "outcomes.lua", "  if store.job_terms then limit_counts.let_go(t) end\n", "",
        "a task that has ended counts against its limit", "test_room_is_given_on_however_the_task_ends", _LIMITS,
    ),
    Mistake(
        "job_queue.lua", "  if store.job_terms then limit_counts.let_go(t) end\n", "",
        "a task that is cancelled in the queue counts against its limit",
        "test_room_is_given_on_however_the_task_ends", _LIMITS,
    ),
    Mistake(
        "limited_tasks.lua", "tonumber(place) > tonumber(tasks.place_of(t))", "false",
        "a task in the queue keeps one of higher priority beside it",
        "test_a_task_of_higher_priority_goes_before_one_that_has_not_started", _LIMITS,
    ),
    Mistake(
        "limit_changes.lua", "if not group then return count_running(full) end", "if not group then return true end",
        "other limits do not count what runs already",
        "test_other_limits_count_for_the_tasks_that_wait_and_run", _SLOTS,
    ),
    Mistake(
        "limit_changes.lua", "    if not limit then redis.call('DEL', keys.limit_starts(group)) end\n",
        "    redis.call('DEL', keys.limit_starts(group))\n",
        "a rate begins anew when another limit changes", "test_a_rate_counts_on_when_another_limit_changes", _LIMITS,
    ),
    Mistake(
        "payload_values.lua", "'sha1:' .. redis.sha1hex(text)", "string.sub(text, 1, 200)",
        "long values with the same beginning are one", "test_different_values_are_different_groups", _LIMITS,
    ),
    Mistake(
        "limit_changes.lua",
        "    for i = 1, #held, 2 do redis.call('ZADD', keys.limit_backlog(full), held[i + 1], held[i]) end\n", "",
        "tasks that a limit keeps are lost when it changes",
        "test_other_limits_count_for_the_tasks_that_wait_and_run", _SLOTS,
    ),
    Mistake(
        "commands/tasks/move.lua", "task_slots.wish(t.job) or ", "",
        "a superuser lets a task start without its slots",
        "test_a_superuser_cannot_start_a_task_without_its_slots", _LATE,
    ),
    # -- what the machine finds
    Mistake(
        "limit_rooms.lua", "if left > 0 then left = left - 1 - let_in_of(group, left) else", "if left <= 0 then",
        "a task that ends lets no other in",
    ),
    Mistake(
        "task_slots.lua", "'holder', holder, 'runId', t.id)\n", "'runId', t.id)\n",
        "a task whose worker waited does not lose its attempt with a slot",
    ),
    Mistake(
        "limit_counts.lua", "  if redis.call('ZREM', keys.limit_taken(group), t.id) == 0 then return false end\n",
        "  if redis.call('ZREM', keys.limit_taken(group), t.id) >= 0 then return false end\n",
        "room that a task leaves is given to no other",
    ),
)  # fmt: skip
