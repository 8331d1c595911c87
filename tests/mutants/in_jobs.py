"""The mistakes of jobs, workers and tasks; see `mistakes.py`."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

TASKS = (
    Mistake(
        "outcomes.lua", "  if t.worker then redis.call('SREM', keys.worker_tasks(t.worker), t.id) end\n", "",
        "a worker is said to hold what has ended",
    ),
    Mistake(
        "outcomes.lua", "ipairs({keys.runtimes, ", "ipairs({",
        "a task that has ended is still watched for its runtime",
    ),
    Mistake(
        "outcomes.lua", "  tasks.uncount(t)\n", "",
        "a task that has ended still counts for its user and its room",
    ),
    Mistake(
        "commands/tasks/submit.lua", "    if t then spare = spare + #argv[i + 1] + quotas.EACH end\n", "",
        "a submit that is repeated counts twice",
    ),
    Mistake(
        "outcomes.lua", "keys.runtimes, keys.ownerless, ", "keys.runtimes, ",
        "a task that has ended counts as claimed without a worker",
    ),
    Mistake(
        "blocked.lua", "  job_queue.leave(t)\n", "",
        "a task that was cancelled can still be claimed",
    ),
    Mistake(
        "outcomes.lua", "  chains.settle(t, outcomes.close)\n", "",
        "a task waits for others that are all over",
    ),
    Mistake(
        "chains.lua", "if status ~= 'completed' and t.after == 'fail' then", "if status == 'failed' and t.after == 'fail' then",
        "a task runs after one that was cancelled",
    ),
    Mistake(
        "blocked.lua", "  redis.call('HDEL', keys.task(t.id), 'after')\n", "",
        "a task that was let in is said to wait for others",
    ),
    Mistake(
        "outcomes.lua", "  uniques.let_go(t, status)\n", "",
        "a unique key is never free again",
    ),
    Mistake(
        "uniques.lua", "if status == 'completed' and until_ms", "if until_ms",
        "a task that failed stands for its key",
    ),
    Mistake(
        "job_queue.lua", "== 0 then return end\n  job_queue.set_head(t.job)\n", "== 0 then return end\n",
        "a queue is found by a task that was cancelled",
    ),
    Mistake(
        "job_queue.lua", "redis.call('ZADD', keys.heads, 'LT', place, t.job)", "redis.call('ZADD', keys.heads, place, t.job)",
        "a queue is found by its last task instead of its first",
    ),
    Mistake(
        "commands/tasks/claim.lua", "\n    leave()\n", "\n",
        "a queue is found by a task that was claimed",
    ),
    Mistake(
        "claims.lua", "if #found == most then", "if #found >= most - 1 then",
        "a claim of several misses a queue that has one of the oldest tasks",
    ),
    Mistake(
        "outcomes.lua", "attempt >= tonumber(t.max)", "attempt > tonumber(t.max)",
        "a task gets an attempt more than it was to have",
    ),
    Mistake(
        "outcomes.lua", "  if jobs.revive(t.job) then events.jobs(names.room_of(t.job)) end  -- what waits keeps its job\n", "",
        "a task waits for a job that is deleted",
    ),
    Mistake(
        "blocked.lua", "redis.call('ZREM', keys.later, t.id) == 1 then", "redis.call('ZREM', keys.later, t.id) == 2 then",
        "a job counts tasks as put off that were cancelled",
    ),
    Mistake(
        "jobs.lua", "  if redis.call('EXISTS', keys.job_workers(full), keys.job_queue(full)) > 0 then return end\n",
        "  if redis.call('EXISTS', keys.job_workers(full)) > 0 then return end\n",
        "a job is deleted while tasks wait for it",
    ),
    Mistake(
        "jobs.lua", "job[2] or tonumber(job[3] or '0') > 0", "job[2]",
        "a job is deleted while tasks of it are put off",
    ),
    Mistake(
        "jobs.lua", "  redis.call('ZREM', keys.room_jobs(names.room_of(full)), full)\n", "",
        "a deleted job is still listed",
    ),
    Mistake(
        "tasks.lua", "  tasks.unlist(t, t.status)\n", "",
        "a task stands in two lists",
    ),
    Mistake(
        "tasks.lua", "t.at - 1000000 * (t.prio or 0)", "t.at",
        "priority makes no difference",
    ),
    Mistake(
        "claims.lua", "one.score < oldest.score", "one.score > oldest.score",
        "a claim takes the newest instead of the oldest",
    ),
    Mistake(
        "claims.lua", "    if not oldest.score and #oldest.tasks == 2 * some then read_on(oldest) end\n", "",
        "a claim of several leaves tasks that wait",
    ),
    Mistake(
        "commands/tasks/claim.lua", "owner ~= a.user and 'forbidden' or ", "",
        "a worker may be used by a user that does not own it",
    ),
    Mistake(
        "claimed_tasks.lua", "  redis.call('SADD', keys.worker_tasks(worker), t.id)\n", "",
        "what a worker holds is not noted, and stays with it when it dies",
    ),
    Mistake(
        "claimed_tasks.lua", ", 'claimed', store.clock_ms)", ")",
        "the time of a claim is not stored",
    ),
    Mistake(
        "commands/tasks/unstick.lua", "store.clock_ms - tonumber(claimed) <= a.threshold_ms", "store.clock_ms - tonumber(claimed) < a.threshold_ms",
        "a task is taken from its worker at the very end of its time instead of after it",
    ),
    Mistake(
        "commands/tasks/unstick.lua", "t.status == 'claimed' and t.worker", "t.worker",
        "a task is taken from the worker that runs it",
    ),
    Mistake(
        "commands/tasks/unstick.lua", "tonumber(before or '0') >= a.most", "tonumber(before or '0') > a.most",
        "a task that is never started goes round once more than it may",
    ),
    Mistake(
        "outcomes.lua", "'worker', 'started', 'claimed', 'progress', 'message')", "'worker', 'started', 'progress', 'message')",
        "a task that waits again still says since when it was claimed",
    ),
    Mistake(
        "commands/tasks/move.lua", "claimed = {running = true, failed = true, cancelled = true}", "claimed = {running = true, completed = true, failed = true, cancelled = true}",
        "a task is completed that never ran",
    ),
    Mistake(
        "commands/tasks/move.lua", "not (a.status == 'cancelled' and t.user == a.user)", "t.user ~= a.user",
        "the submitter of a task may move it in every way",
    ),
    Mistake(
        "commands/tasks/move.lua", "if tasks.was_heard(t, a.request) then return {'ok', job_queue.task_reply(t)} end  -- also when another has the task by now\n", "",
        "a move that is repeated is refused",
    ),
    Mistake(
        "commands/tasks/finish.lua", "  if t.worker ~= a.worker then return t.worker and 'forbidden' or 'conflict' end\n", "",
        "a worker reports on a task that another one holds",
    ),
    Mistake(
        "commands/tasks/overdue.lua", "'(' .. store.clock_ms - a.age_ms", "store.clock_ms - a.age_ms",
        "a task is failed at the very end of its time instead of after it",
    ),
    Mistake(
        "commands/tasks/forget.lua", "    redis.call('HINCRBY', keys.job(t.job), 'tasks', -1)\n", "",
        "a job counts tasks that are forgotten",
    ),
    Mistake(
        "dead_workers.lua", "  workers.unlink_all(id)\n", "",
        "a removed worker is still linked to its jobs",
    ),
    Mistake(
        "dead_workers.lua", "    jobs.check_orphan(full)\n", "",
        "a job outlives the last worker that served it",
    ),
    Mistake(
        "dead_workers.lua", "    redis.call('SADD', keys.dead_workers, id)\n", "",
        "tasks of a removed worker are forgotten when a hub dies between two batches",
    ),
    Mistake(
        "workers.lua", "    if shared and not workers.is_shared(room) then", "    if false then",
        "a worker is listed twice in a room",
    ),
    Mistake(
        "commands/workers/remove.lua", "if a.silent_ms >= 0 and store.clock_ms - beat_ms <= a.silent_ms then return {'alive'} end\n", "",
        "a worker is removed that has beaten since it was looked at",
    ),
    Mistake(
        "commands/jobs/register.lua", "if job[1] and not job[3] and job[2] ~= a.digest then return {'conflict'} end\n", "",
        "a job is joined under another schema",
    ),
    Mistake(
        "commands/schedules/fire.lua", " or schedules.plan_of(s) ~= a.plan then", " then",
        "a schedule that was changed is fired by the times it had before",
    ),
    Mistake(
        "commands/schedules/fire.lua", " or s.due ~= a.due_us or", " or",
        "a schedule that is due once is fired by two hubs",
    ),
    Mistake(
        "commands/schedules/fire.lua", "    if tasks.read(id) then return end\n", "",
        "a schedule makes the task of a time again that it has made",
    ),
    Mistake(
        "commands/schedules/put.lua", "stays and old.due or a.due_us", "a.due_us",
        "a schedule that is put again as it is is due at another time",
    ),
    Mistake(
        "commands/schedules/put_aside.lua", " or schedules.plan_of(s) ~= a.plan then", " then",
        "a schedule that was replaced is put aside for what it was before",
        "replaced_is_not_put_aside", "tests/jobs/test_broken_schedules.py",
    ),
    Mistake(
        "commands/schedules/fire.lua", "  schedules.bring_back(s)\n", "",
        "a schedule that was fired stays put aside",
        "whose_zone_is_back_catches_up", "tests/jobs/test_broken_schedules.py",
    ),
    Mistake(
        "commands/schedules/pause.lua", "    if schedules.plan_of(s) ~= a.plan then return {'moved'} end\n", "",
        "a schedule goes on by the times it had before it was changed",
    ),
)  # fmt: skip
