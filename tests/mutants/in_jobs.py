"""The mistakes of jobs, workers and tasks; see `mistakes.py`."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

TASKS = (
    Mistake(
        "include/settle_task.lua", "  if t.worker then redis.call('SREM', key_worker_tasks(t.worker), t.id) end\n", "",
        "a worker is said to hold what has ended",
    ),
    Mistake(
        "include/settle_task.lua", "  redis.call('ZREM', key_runtimes, t.id)\n", "",
        "a task that has ended is still watched for its runtime",
    ),
    Mistake(
        "include/settle_task.lua", "  redis.call('ZREM', key_ownerless, t.id)\n", "",
        "a task that has ended counts as claimed by nobody",
    ),
    Mistake(
        "include/settle_task.lua", "    unqueue(t)\n", "",
        "a task that was cancelled can still be claimed",
    ),
    Mistake(
        "include/queue.lua", "== 1 then set_head(t.job) end", "== 2 then set_head(t.job) end",
        "a queue is found by a task that was cancelled",
    ),
    Mistake(
        "include/queue.lua", "redis.call('ZADD', key_heads, 'LT', place, t.job)", "redis.call('ZADD', key_heads, place, t.job)",
        "a queue is found by its last task instead of its first",
    ),
    Mistake(
        "tasks/claim.lua", "leave()\n", "",
        "a queue is found by a task that was claimed",
    ),
    Mistake(
        "include/oldest_first.lua", "if #found == most then", "if #found >= most - 1 then",
        "a claim of several misses a queue that has one of the oldest tasks",
    ),
    Mistake(
        "include/settle_task.lua", "attempt >= tonumber(t.max)", "attempt > tonumber(t.max)",
        "a task gets an attempt more than it was to have",
    ),
    Mistake(
        "include/settle_task.lua", "  if revive(t.job) then emit_jobs(room_of(t.job)) end  -- what waits keeps its job\n", "",
        "a task waits for a job that is deleted",
    ),
    Mistake(
        "include/settle_task.lua", "if redis.call('ZREM', key_later, t.id) == 1 then redis.call('HINCRBY', key_job(t.job), 'later', -1) end",
        "redis.call('ZREM', key_later, t.id)",
        "a job counts tasks as put off that were cancelled",
    ),
    Mistake(
        "include/orphan.lua", "  if redis.call('EXISTS', key_job_workers(full), key_queue(full)) > 0 then return end\n",
        "  if redis.call('EXISTS', key_job_workers(full)) > 0 then return end\n",
        "a job is deleted while tasks wait for it",
    ),
    Mistake(
        "include/orphan.lua", "job[2] or tonumber(job[3] or '0') > 0", "job[2]",
        "a job is deleted while tasks of it are put off",
    ),
    Mistake(
        "include/orphan.lua", "  redis.call('ZREM', key_room_jobs(room_of(full)), full)\n", "",
        "a deleted job is still listed",
    ),
    Mistake(
        "include/task.lua", "  unlist(t, t.status)\n", "",
        "a task stands in two lists",
    ),
    Mistake(
        "include/queue.lua", "t.at - 1000000 * (t.prio or 0)", "t.at",
        "priority makes no difference",
    ),
    Mistake(
        "include/oldest_first.lua", "queue.score < oldest.score", "queue.score > oldest.score",
        "a claim takes the newest instead of the oldest",
    ),
    Mistake(
        "include/oldest_first.lua", "    if not oldest.score and #oldest.tasks == 2 * some then read_on(oldest) end\n", "",
        "a claim of several leaves tasks that wait",
    ),
    Mistake(
        "tasks/claim.lua", "if owner ~= user then return {'forbidden'} end\n", "",
        "a worker is used by somebody it does not belong to",
    ),
    Mistake(
        "tasks/claim.lua", "  redis.call('SADD', key_worker_tasks(worker), t.id)\n", "",
        "what a worker holds is not noted, and stays with it when it dies",
    ),
    Mistake(
        "tasks/claim.lua", ", 'claimed', clock_ms)", ")",
        "nobody knows since when a task is claimed",
    ),
    Mistake(
        "tasks/unstick.lua", "clock_ms - tonumber(claimed) <= threshold_ms", "clock_ms - tonumber(claimed) < threshold_ms",
        "a task is taken from its worker at the very end of its time instead of after it",
    ),
    Mistake(
        "tasks/unstick.lua", "t.status == 'claimed' and t.worker", "t.worker",
        "a task is taken from the worker that runs it",
    ),
    Mistake(
        "tasks/unstick.lua", "tonumber(before or '0') >= most", "tonumber(before or '0') > most",
        "a task that is never started goes round once more than it may",
    ),
    Mistake(
        "include/settle_task.lua", "'worker', 'started', 'claimed')", "'worker', 'started')",
        "a task that waits again still says since when it was claimed",
    ),
    Mistake(
        "tasks/move.lua", "claimed = {running = true, failed = true, cancelled = true}", "claimed = {running = true, completed = true, failed = true, cancelled = true}",
        "a task is completed that never ran",
    ),
    Mistake(
        "tasks/move.lua", "not (status == 'cancelled' and t.user == user)", "t.user ~= user",
        "whoever submitted a task may do anything to it",
    ),
    Mistake(
        "tasks/move.lua", "if was_heard(t, request) then return {'ok', task_reply(t)} end  -- whoever has the task by now\n", "",
        "a move that is repeated is refused",
    ),
    Mistake(
        "tasks/finish.lua", "  if t.worker ~= worker then return t.worker and 'forbidden' or 'conflict' end\n", "",
        "a worker reports on a task that another one holds",
    ),
    Mistake(
        "tasks/overdue.lua", "'(' .. clock_ms - age_ms", "clock_ms - age_ms",
        "a task is failed at the very end of its time instead of after it",
    ),
    Mistake(
        "tasks/forget.lua", "    redis.call('HINCRBY', key_job(t.job), 'tasks', -1)\n", "",
        "a job counts tasks that are forgotten",
    ),
    Mistake(
        "include/remove_worker.lua", "  unlink_all(id)\n", "",
        "a removed worker is still linked to its jobs",
    ),
    Mistake(
        "include/remove_worker.lua", "    check_orphan(full)\n", "",
        "a job outlives the last worker that served it",
    ),
    Mistake(
        "include/remove_worker.lua", "    redis.call('SADD', key_dead_workers, id)\n", "",
        "tasks of a removed worker are forgotten when a hub dies between two bites",
    ),
    Mistake(
        "include/worker.lua", "    if shared and not is_shared(room) then", "    if false then",
        "a worker is listed twice in a room",
    ),
    Mistake(
        "workers/remove.lua", "if silent_ms >= 0 and clock_ms - beat_ms <= silent_ms then return {'alive'} end\n", "",
        "a worker is removed that has beaten since it was looked at",
    ),
    Mistake(
        "jobs/register.lua", "if job[1] and not job[3] and job[2] ~= digest then return {'conflict'} end\n", "",
        "a job is joined under another schema",
    ),
)  # fmt: skip
