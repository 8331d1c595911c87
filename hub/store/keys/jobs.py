"""The private keys of workers, jobs, tasks, providers and sockets.

Ids are 32 hex digits, a full name is room:category:name, and times are in microseconds.
"""

from hub.store.keys.key import Each, One, Section


class OfJobs(Section):
    title = "Workers, jobs and tasks"
    owner = "hub/jobs/"

    # Fields: user, at (when it was made), beat (last heartbeat); claim and tasks: its last claim with a request id, and
    # the answer; odd: task:claim:hub clock for tasks that its heartbeats do not name; incarnation (the process that is
    # the worker), past (the processes before, ten at most); taken (how often a task was taken from it). Deleted with
    # the worker.
    worker = Each("hub:worker:{worker}", "hash", "user, times, last claim with a key, incarnation", "with the worker")
    workers = One("hub:workers", "zset", "worker -> when it was made", "with the worker")
    worker_beats = One("hub:worker_beats", "zset", "worker -> its last heartbeat on the hub clock", "with the worker")
    worker_jobs = Each("hub:worker_jobs:{worker}", "set", "full names of the jobs it serves", "with the worker")
    worker_rooms = Each("hub:worker_rooms:{worker}", "hash", "room -> number of its jobs there", "with the worker")
    worker_tasks = Each(
        "hub:worker_tasks:{worker}", "set", "tasks it has claimed or runs", "a member with the end of the task"
    )
    worker_providers = Each("hub:worker_providers:{worker}", "set", "full names of its providers", "with the worker")
    dead_workers = One(
        "hub:dead_workers", "set", "removed workers some of whose tasks have not failed yet", "empties so"
    )
    # Fields: those of `brake`, for workers; unsure: 1 when the store was just away, or no worker was heard. Deleted
    # when the brake ends.
    worker_brake = One("hub:worker_brake", "hash", "the brake on removing workers", "when the brake ends")
    room_workers = Each(
        "hub:room_workers:{room}", "zset", "workers with a job in this room", "a member with its worker"
    )
    # Fields: id, at (when it was made), schema, digest, result (schema of the results of its tasks), attempts and
    # backoff_ms (for tasks that are submitted without a choice; only where there is more than one attempt), by and
    # bytes (the user whose quota its schemas count for, and their size), tasks (number of task records), later (number
    # of tasks put off), run_us (how long tasks ran lately), back (the request that revived it); deleted: when it was
    # soft-deleted. Deleted when it was soft-deleted for HUB_TASK_RETENTION_SECONDS and its last task is forgotten.
    job = Each(
        "hub:job:{job}",
        "hash",
        "id, times, schema and its digest, counts, how long its tasks ran",
        "`HUB_TASK_RETENTION_SECONDS` after its soft deletion, with its last task",
    )
    job_workers = Each("hub:job_workers:{job}", "set", "workers that serve it", "a member with its worker")
    slow_schema = Each(
        "hub:slow_schema:{digest}", "string", "how long it took to check a payload against it", "one day", seconds=86400
    )
    room_jobs = Each("hub:room_jobs:{room}", "zset", "full names of active jobs -> when made", "a member with its job")
    deleted_jobs = One("hub:deleted_jobs", "zset", "full name -> when it was soft-deleted", "until it is back or gone")
    executors = One("hub:executors", "set", "full names of `@internal` jobs that somebody can run", "never deleted")
    # Fields: job, room, user, at (submitted), status; worker, claimed (hub clock, unless it was started at once),
    # started, done, error, last (request of the last move), back (the latest four requests that queued it again, one a
    # line), claim (name of its last claim; only rises), had (the user from whose worker it was taken), unstuck (how
    # often it was queued again because its worker did not start it), entry (the id of its message, for an @internal
    # job), bytes (how much it counts for quotas while it is open). Only where they were asked for: prio, attempt, max,
    # backoff_ms, due, silence (ms), unique (its unique key, and for how long after its submit), after (fail or run,
    # while it waits for other tasks), followed (1 where other tasks wait for it). Of its last report: progress,
    # message, said (when) and heard (the request). Deleted HUB_TASK_RETENTION_SECONDS after its end.
    task = Each(
        "hub:task:{task}",
        "hash",
        "job, room, user, status, worker, times, error, options",
        "`HUB_TASK_RETENTION_SECONDS` after its end",
    )
    payload = Each("hub:payload:{task}", "string", "JSON as it was submitted", "with the task")
    task_result = Each(
        "hub:task_result:{task}", "string", "JSON of what it came to, `!` where the store lost that", "with the task"
    )
    task_log = Each("hub:task_log:{task}", "list", "when and a text, of the latest 100 it logged", "with the task")
    job_queue = Each(
        "hub:queue:{job}",
        "zset",
        "task -> when it was submitted, less a second per priority",
        "a member when it is claimed",
    )
    heads = One("hub:heads", "zset", "full name -> score of the first task in its queue", "with the last task in it")
    later = One("hub:later", "zset", "task -> when it may be claimed", "until then")
    blocked = One(
        "hub:blocked",
        "zset",
        "task that waits for others -> when it is looked at again, on the hub clock",
        "until it may be claimed",
    )
    task_parents = Each("hub:task_parents:{task}", "set", "tasks it waits for", "a member when that is over")
    task_children = Each("hub:task_children:{task}", "set", "tasks that wait for it", "when it is over")
    settling = One(
        "hub:settling", "zset", "task and how it ended -> when, while others have yet to hear of it", "within seconds"
    )
    room_tasks = Each("hub:room_tasks:{status:room}", "zset", "task -> when it was submitted", "with the task")
    job_tasks = Each("hub:job_tasks:{status:room:job}", "zset", "task -> when it was submitted", "with the task")
    runtimes = One("hub:runtimes", "zset", "task -> when it has run for too long, on the hub clock", "when it ends")
    silences = One(
        "hub:silences",
        "zset",
        "running task -> when it has said nothing for too long, on the hub clock",
        "when it ends",
    )
    ownerless = One("hub:ownerless", "zset", "task -> since when nobody holds it, on the hub clock", "when it ends")
    internal_tasks = One(
        "hub:internal_tasks", "zset", "task of an `@internal` job -> its start, on the hub clock", "when it ends"
    )
    held_tasks = One("hub:held_tasks", "zset", "claimed or running task -> when it was submitted", "when it ends")
    finished = One("hub:finished", "zset", "task -> when it ended", "with the task")
    dead = One("hub:dead", "zset", "failed task whose attempts are used up -> when it ended", "with the task")
    # An end is stored as five texts: status, error, claim, request and worker.
    early_ends = Each(
        "hub:early_ends:{task}",
        "list",
        "ends of a task that the store has lost and a hub has yet to submit again",
        "until it does, 60 s at most",
        seconds=60,
    )
    claim = Each("hub:claim:{request}", "string", "what a claim was answered with", "60 s", seconds=60)
    submitted = Each(
        "hub:submitted:{request}",
        "string",
        "fingerprint of a submit with a key; the task that was there already",
        "24 h, or the retention of its tasks",
        seconds=86400,
    )
    unique = Each(
        "hub:unique:{key}",
        "string",
        "the task that stands for a unique key",
        "with the end of its task; of one that was completed, until its window is over",
    )
    # Fields: room, name, user, at (when it was made); job, payload, cron or every_ms, zone, catch_up, paused; prio,
    # max, backoff_ms, silence and unique of its tasks; due (the next time), last (the last time that made a task), task
    # (that task), fired (number of tasks made), why (why the last time made none), bytes (how much it counts for
    # quotas); broken (why it was put aside), again (when it is tried again).
    schedule = Each("hub:schedule:{room:name}", "hash", "job, payload, times and options", "until it is deleted")
    schedules = One(
        "hub:schedules",
        "zset",
        "room and name -> when it is due or, put aside, looked at; infinite while paused",
        "with it",
    )
    room_schedules = Each("hub:room_schedules:{room}", "zset", "name -> when it was made", "with the schedule")
    # The kinds are tasks and schemas (in bytes), schedules, providers and rooms. A member is `user:` or `room:` and the
    # id.
    used = Each("hub:used:{kind}", "zset", "user or room -> how much of this it holds", "a member when it holds none")
    room_openers = One("hub:room_openers", "hash", "room that holds something -> the user who opened it", "until then")
    recent = Each(
        "hub:recent:{kind:user}", "hash", "an eighth of the time -> keys or questions of a user", "27 h", seconds=97200
    )
    task_done = Each("hub:task_done:{task}", "channel", "this task has ended", "")
    job_notice = Each("hub:job_bell:{job}", "channel", "a task of this job can be claimed", "")
    worker_notice = Each("hub:worker_bell:{worker}", "channel", "something was taken from this worker", "")


class OfProviders(Section):
    title = "Providers"
    owner = "hub/jobs/"

    provider = Each(
        "hub:provider:{provider}", "hash", "id, times, schema, content type, worker, user", "with it or its worker"
    )
    provider_name = Each(
        "hub:provider_name:{id}", "string", "full name of the provider with this id", "with the provider"
    )
    room_providers = Each("hub:room_providers:{room}", "zset", "full name -> when it was made", "with the provider")
    result = Each("hub:result:{provider:hash}", "string", "an answer", "`HUB_PROVIDER_RESULT_TTL_SECONDS`", seconds=300)
    inflight = Each(
        "hub:inflight:{provider:hash}", "string", "when it was asked", "`HUB_PROVIDER_INFLIGHT_TTL_SECONDS`", seconds=30
    )
    wanted = Each("hub:wanted:{provider:hash}", "string", "somebody has asked for it", "one hour", seconds=3600)
    room_results = Each(
        "hub:room_results:{room}", "zset", "provider and hash -> when the answer lapses", "with the last of them"
    )
    room_sizes = Each("hub:room_sizes:{room}", "hash", "provider and hash -> bytes, and their sum", "with that list")
    result_notice = Each("hub:result_bell:{provider:hash}", "channel", "the answer is there", "")


class OfSockets(Section):
    title = "Sockets"
    owner = "hub/jobs/"

    socketio = One("hub:socketio", "channel", "events for the sockets of all hubs", "")
    sockets = Each("hub:sockets:{worker}", "set", "connections bound to a worker", "a member with its connection")
    bound = Each("hub:bound:{connection}", "set", "workers bound to a connection", "with the connection, or its hub")
    connections = Each(
        "hub:connections:{hub}", "set", "connections of a hub that have workers", "a member with its connection"
    )
    socket_hubs = One("hub:socket_hubs", "set", "hubs that have such connections", "with the last connection")
    hung_up = One("hub:hung_up", "zset", "worker that hung up -> when it is removed", "until it is back")
