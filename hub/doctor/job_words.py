"""The meaning of each word that the checks of tasks, jobs, workers and providers answer. No I/O."""

from __future__ import annotations

from hub.doctor.words import Trouble

TASKS = {
    "record broken": Trouble("C9", "its record does not say whose it is, where it was submitted, or how it stands"),
    "not of its room": Trouble("C9", "not among the tasks of its room in its status, or not at its place there"),
    "not of its job": Trouble("C9", "not among the tasks of its job in its status, or not at its place there"),
    "waits nowhere": Trouble("C9", "pending, but in no queue, so that no worker would ever claim it"),
    "waits in vain": Trouble("C9", "waits for others that are all over, or do not know of it", settles=True),
    "not counted": Trouble("C12", "claimed, but not among all that are, or not at its place there"),
    "not of its worker": Trouble("C10", "claimed, but not among the tasks of its worker, whose end would not fail it"),
    "held by the dead": Trouble("C10", "claimed by a worker that is gone, and nothing would ever end it"),
    "endless": Trouble("C10", "claimed by no worker, and nothing would ever end it"),
    "never forgotten": Trouble("C12", "over, but not among those that are forgotten some day"),
}
ENTRIES = {"stray": Trouble("C12", "names what does not belong there")}
# A stray member of these indexes does harm, and each has a sentence of its own.
ENTRY_STRAYS = {
    **dict.fromkeys(("room_tasks", "job_tasks"), Trouble("C9", "lists a task under what it is not, or not any more")),
    "job_queue": Trouble("C9", "would let a task be claimed that does not wait there"),
    "heads": Trouble("C9", "would have a queue looked at that is empty"),
    "later": Trouble("C9", "would queue a task that is not put off"),
    "blocked": Trouble("C9", "says that a task waits for others that does not"),
    "task_children": Trouble("C12", "names a task that does not wait for it", settles=True),
    "settling": Trouble("C12", "names a task that no other waits for", settles=True),
    "worker_tasks": Trouble("C9", "names a task that this worker does not hold"),
    "ownerless": Trouble("C9", "would fail a task that is not without a worker"),
    "internal_tasks": Trouble("C9", "would fail a task that is not executed"),
    "runtimes": Trouble("C9", "would fail a task that does not run"),
    "silences": Trouble("C9", "would fail a task that does not run, or may say nothing for as long as it likes"),
    "finished": Trouble("C9", "would have a task forgotten that is not over"),
    "dead_workers": Trouble("C10", "names a worker that is not gone"),
    "hung_up": Trouble("C12", "names a worker that is gone", settles=True),
}
WORKERS = {
    "record broken": Trouble("C10", "its record does not say whose it is, or when it beat"),
    "unlisted": Trouble("C12", "not among the workers, or not at its place there"),
    "never dead": Trouble("C10", "nothing is kept of its beats, so that no sweep would ever remove it"),
    "dead": Trouble("C10", "silent for longer than its timeout and a sweep interval, and still there"),
    "rooms differ": Trouble("C12", "the number kept of its jobs in a room is not what there is"),
    "not in its rooms": Trouble("C12", "not among the workers of a room it has jobs in"),
    "half removed": Trouble("C10", "gone, but what it held has not all failed", settles=True),
    "left behind": Trouble("C10", "gone, but some of what it had is left"),
}
LINKS = {
    "one-sided": Trouble("C10", "either the worker or the job does not know of the other"),
    "linked to the dead": Trouble("C10", "the job counts on a worker that is gone"),
}
JOBS = {
    "record broken": Trouble("C12", "its record lacks its id, its time or its schema"),
    "unlisted": Trouble("C12", "not listed as what it is, active or soft-deleted"),
    "head": Trouble("C9", "the first in its queue is not what workers of many jobs find it by"),
    "deleted": Trouble("C10", "soft-deleted, though workers serve it or tasks wait for it"),
}
COUNTS = {
    "tasks": Trouble("C12", "the number kept of its tasks is not how many there are"),
    "later": Trouble("C10", "the number kept of those put off is not how many there are"),
}
HOLDINGS = {"differs": Trouble("C12", "says of a user or a room that it holds more, or less, than it does")}
SCHEDULES = {
    "record broken": Trouble("C12", "its record does not say what it is to submit, or when"),
    "not when it is due": Trouble("C12", "not among the schedules, or at another time there than it is due"),
    "unlisted": Trouble("C12", "not among the schedules of its room"),
}
PROVIDERS = {
    "record broken": Trouble("C12", "its record lacks its id, its time or its worker"),
    "of nobody": Trouble("C10", "its worker is gone"),
    "unlisted": Trouble("C12", "not among the providers of its room, or not at its place there"),
    "not of its worker": Trouble("C10", "not among the providers of its worker, whose end would not take it"),
    "unnamed": Trouble("C12", "not known by its id"),
}
