"""The private keys of workers, jobs, tasks, providers and sockets.

Ids are 32 hex digits, a full name is room:category:name, and times are in microseconds.
"""

from hub.store.keys.key import Each, One, Section


class OfJobs(Section):
    title = "Workers, jobs and tasks"
    owner = "hub/jobs/"

    # Fields: user, at, beat (times of the registration and the last heartbeat); claim and tasks: the last claim with an
    # idempotency key and what it got; odd: task:claim:hub clock for each task that its heartbeats do not name;
    # incarnation: the process that is the worker; past: the processes before; taken: how often a task was taken from
    # it; lends: 1 when a task of it had slots; ticket: what it needs and the ticket under which it waits for slots.
    worker = Each(
        "hub:worker:{worker}", "hash", "user, times, last claim with an idempotency key, incarnation", "with the worker"
    )
    workers = One("hub:workers", "zset", "worker -> when the worker was made", "with the worker")
    worker_beats = One("hub:worker_beats", "zset", "worker -> last heartbeat, on the hub clock", "with the worker")
    worker_jobs = Each("hub:worker_jobs:{worker}", "set", "full names of the jobs of the worker", "with the worker")
    worker_rooms = Each(
        "hub:worker_rooms:{worker}", "hash", "room -> number of jobs of the worker in the room", "with the worker"
    )
    worker_tasks = Each(
        "hub:worker_tasks:{worker}", "set", "tasks that the worker has claimed or runs", "a member until its task ends"
    )
    worker_providers = Each(
        "hub:worker_providers:{worker}", "set", "full names of the providers of the worker", "with the worker"
    )
    dead_workers = One(
        "hub:dead_workers", "set", "removed workers with tasks that are still to fail",
        "a member until its last task has failed",
    )  # fmt: skip
    # Fields: those of `brake`, for workers; unsure: 1 when the store was just away, or no worker was heard.
    worker_brake = One("hub:worker_brake", "hash", "the brake on removing silent workers", "when the brake ends")
    room_workers = Each(
        "hub:room_workers:{room}", "zset", "workers with a job in this room", "a member with its worker"
    )
    # Fields: id, at, schema, digest; result: schema of the results; attempts and backoff_ms: defaults for its tasks,
    # where there is more than one attempt; by and bytes: the user for whom its schemas count, and their bytes; tasks:
    # number of task records; later: number of tasks put off or waiting for others; run_us: mean run time of its tasks;
    # back: id in the request that took the job back; deleted: when it was soft-deleted; needs: the slots that each of
    # its tasks needs, and limits on its tasks, both as JSON.
    job = Each(
        "hub:job:{job}", "hash", "id, times, schema and its digest, numbers of tasks, mean run time",
        "`HUB_TASK_RETENTION_SECONDS` after its soft deletion, with its last task",
    )  # fmt: skip
    job_workers = Each("hub:job_workers:{job}", "set", "workers of the job", "a member with its worker")
    # A group is the tasks of a job that one of its limits counts together: job, number of the limit, value there.
    limit_taken = Each(
        "hub:limit_taken:{group}", "zset", "tasks of the group that run, and those that it has let into the queue",
        "a member while it counts",
    )  # fmt: skip
    limit_held = Each(
        "hub:limit_held:{group}", "zset", "task that waits beside the queue until the group has room -> its place",
        "a member while it waits",
    )  # fmt: skip
    limit_starts = Each(
        "hub:limit_starts:{group}", "list", "when tasks of the group have started, on the hub clock, the last first",
        "an hour after the last counts",
    )  # fmt: skip
    limit_groups = Each("hub:limit_groups:{job}", "set", "groups that count a task", "a member while it counts one")
    limited = Each("hub:limited:{job}", "set", "groups in which tasks wait for room", "a member while one waits")
    limit_backlog = Each(
        "hub:limit_backlog:{job}", "zset", "task that waited when the job got other limits, or has come since -> place",
        "a member until it is let into the queue",
    )  # fmt: skip
    limit_old = Each(
        "hub:limit_old:{job}", "set", "groups of the limits that a job had, whose tasks are to join the backlog",
        "a member until they have",
    )  # fmt: skip
    limit_running = Each(
        "hub:limit_running:{job}", "zset", "tasks that ran when the job got other limits, and are still to be counted",
        "a member until it is",
    )  # fmt: skip
    limit_backlogs = One("hub:limit_backlogs", "set", "jobs with a backlog", "a member while it has one")
    limits_due = One(
        "hub:limits_due", "zset", "group in which tasks wait -> when it may have room, on the hub clock",
        "a member until then",
    )  # fmt: skip
    slot_losses = One(
        "hub:slot_losses",
        "list",
        "task|bundle|slot of leases of tasks that ended early",
        "an entry until a hub has read it",
    )
    slow_schema = Each(
        "hub:slow_schema:{digest}", "string", "how long checking a payload against this schema took",
        "one day", seconds=86400,
    )  # fmt: skip
    room_jobs = Each(
        "hub:room_jobs:{room}", "zset", "full name of an active job -> when it was made", "a member with its job"
    )
    deleted_jobs = One(
        "hub:deleted_jobs", "zset", "full name of a job -> when it was soft-deleted",
        "a member until its job is taken back or deleted",
    )  # fmt: skip
    executors = One("hub:executors", "set", "full names of `@internal` jobs that executors run", "never deleted")
    # Fields: job, room, user, at, status; then worker, started, done, error; claimed: hub clock of the claim, unless it
    # was started at once; last: request of the last change of status; back: the latest four requests that gave it back,
    # by line; claim: name of its last claim, which only rises; had: user of the worker from which it was taken back;
    # unstuck: how often it was taken back because it was not started; entry: its message in the stream, for an
    # @internal job; bytes: what it counts while it is open. Where asked for: prio, attempt, max, backoff_ms, due,
    # silence (ms), unique (unique key and its window), after (fail or run, while it waits for others), followed (1
    # while others wait for it). Of its progress: progress, message, said (when) and heard (request).
    task = Each(
        "hub:task:{task}", "hash", "job, room, user, status, worker, times, error, options",
        "`HUB_TASK_RETENTION_SECONDS` after its end",
    )  # fmt: skip
    payload = Each("hub:payload:{task}", "string", "payload of the task, as JSON", "with the task")
    task_result = Each(
        "hub:task_result:{task}", "string", "result of the task, as JSON; `!` where the store has lost it",
        "with the task",
    )  # fmt: skip
    task_log = Each(
        "hub:task_log:{task}", "list", "the latest 100 texts that the task logged, each behind its time",
        "with the task",
    )  # fmt: skip
    job_queue = Each(
        "hub:queue:{job}", "zset", "task -> when it was submitted, less a second per point of priority",
        "a member until its task is claimed",
    )  # fmt: skip
    heads = One(
        "hub:heads", "zset", "full name of a job -> score of the first task in its queue",
        "a member with the last task of its queue",
    )  # fmt: skip
    later = One("hub:later", "zset", "task that is put off -> when it can be claimed", "a member until then")
    blocked = One(
        "hub:blocked", "zset", "task that waits for others -> when those are checked again, on the hub clock",
        "a member until its task can be claimed",
    )  # fmt: skip
    task_parents = Each(
        "hub:task_parents:{task}", "set", "tasks that this task waits for", "a member until its task is over"
    )
    task_children = Each(
        "hub:task_children:{task}", "set", "tasks that wait for this task", "until this task is over and they were told"
    )
    settling = One(
        "hub:settling", "zset", "task and its terminal status -> when it ended, while tasks that wait for it are told",
        "a few seconds",
    )  # fmt: skip
    room_tasks = Each("hub:room_tasks:{status:room}", "zset", "task -> when it was submitted", "with the task")
    job_tasks = Each("hub:job_tasks:{status:room:job}", "zset", "task -> when it was submitted", "with the task")
    runtimes = One(
        "hub:runtimes", "zset", "task -> when it will have run for too long, on the hub clock",
        "a member until its task ends",
    )  # fmt: skip
    silences = One(
        "hub:silences", "zset", "running task -> when it will have been silent for too long, on the hub clock",
        "a member until its task ends",
    )  # fmt: skip
    ownerless = One(
        "hub:ownerless", "zset", "claimed task -> since when it has no worker, on the hub clock",
        "a member until its task ends",
    )  # fmt: skip
    internal_tasks = One(
        "hub:internal_tasks", "zset", "task of an `@internal` job -> its start, on the hub clock",
        "a member until its task ends",
    )  # fmt: skip
    held_tasks = One(
        "hub:held_tasks", "zset", "claimed or running task -> when it was submitted", "a member until its task ends"
    )
    finished = One("hub:finished", "zset", "task -> when it ended", "with the task")
    dead = One("hub:dead", "zset", "dead letter, a failed task without attempts left -> when it ended", "with the task")
    # Five texts for each end: status, error, claim, request and worker.
    early_ends = Each(
        "hub:early_ends:{task}", "list",
        "ends of a task that the store has lost and that a hub has yet to submit again",
        "until a hub submits the task, 60 s at most", seconds=60,
    )  # fmt: skip
    claim = Each("hub:claim:{request}", "string", "tasks with which a claim was answered", "60 s", seconds=60)
    submitted = Each(
        "hub:submitted:{request}", "string",
        "fingerprint of a submit with a key, and the task under its unique key that was its answer",
        "24 h, or the retention of its tasks if that is shorter", seconds=86400,
    )  # fmt: skip
    unique = Each(
        "hub:unique:{key}", "string", "the task that stands for a unique key",
        "until its task ends; of a completed task until the window of the key is over",
    )  # fmt: skip
    # Fields: room, name, user, at; job, payload, cron or every_ms, zone, catch_up, paused; prio, max, backoff_ms,
    # silence and unique of its tasks; due: when it is due next; task: the last task that it made; last: when it was due
    # for that; fired: number of tasks made; why: why its last firing made none; bytes: what it counts; broken: why it
    # was put aside; again: when it is looked at again.
    schedule = Each("hub:schedule:{room:name}", "hash", "job, payload, times and options", "until it is deleted")
    schedules = One(
        "hub:schedules", "zset",
        "room and name -> when the schedule is due, or is looked at again; infinite while paused",
        "a member with its schedule",
    )  # fmt: skip
    room_schedules = Each(
        "hub:room_schedules:{room}", "zset", "name of a schedule -> when it was made", "a member with its schedule"
    )
    # Kinds: tasks and schemas (bytes), schedules, providers, rooms (numbers). A member is `user:` or `room:` and an id.
    used = Each(
        "hub:used:{kind}", "zset", "user or room -> how much of this kind it holds",
        "a member until its owner holds nothing",
    )  # fmt: skip
    room_openers = One(
        "hub:room_openers", "hash", "room that holds something -> the user who opened it",
        "a field until its room holds nothing",
    )  # fmt: skip
    recent = Each(
        "hub:recent:{kind:user}", "hash", "an eighth of the period -> number of keys or questions of a user in it",
        "27 h", seconds=97200,
    )  # fmt: skip
    task_done = Each("hub:task_done:{task}", "channel", "this task has ended", "")
    job_notice = Each("hub:job_bell:{job}", "channel", "a task of this job can be claimed", "")
    worker_notice = Each("hub:worker_bell:{worker}", "channel", "a task was taken from this worker", "")


class OfProviders(Section):
    title = "Providers"
    owner = "hub/jobs/"

    provider = Each(
        "hub:provider:{provider}", "hash", "id, times, schema, content type, worker, user",
        "with the provider or its worker",
    )  # fmt: skip
    provider_name = Each(
        "hub:provider_name:{id}", "string", "full name of the provider with this id", "with the provider"
    )
    room_providers = Each(
        "hub:room_providers:{room}", "zset", "full name of a provider -> when it was made", "a member with its provider"
    )
    result = Each(
        "hub:result:{provider:hash}", "string", "an answer of the provider",
        "`HUB_PROVIDER_RESULT_TTL_SECONDS`", seconds=300,
    )  # fmt: skip
    inflight = Each(
        "hub:inflight:{provider:hash}", "string", "when the provider was asked",
        "`HUB_PROVIDER_INFLIGHT_TTL_SECONDS`", seconds=30,
    )  # fmt: skip
    wanted = Each(
        "hub:wanted:{provider:hash}", "string", "empty: a client has asked for this answer", "one hour", seconds=3600
    )
    room_results = Each(
        "hub:room_results:{room}", "zset", "provider and hash -> when the answer lapses", "until the last answer lapses"
    )
    room_sizes = Each(
        "hub:room_sizes:{room}", "hash", "provider and hash -> bytes of the answer; the sum of all",
        "until the last answer lapses",
    )  # fmt: skip
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
    socket_hubs = One(
        "hub:socket_hubs", "set", "hubs with connections that have workers", "a member with its last connection"
    )
    hung_up = One(
        "hub:hung_up", "zset", "worker without a connection -> when it is removed", "a member until its worker is back"
    )
