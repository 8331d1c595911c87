"""The meaning of each word that the checks of `lua/doctor.lua` answer: the broken invariant and a sentence. No I/O."""

from __future__ import annotations

from typing import NamedTuple


class Trouble(NamedTuple):
    """The meaning of a word: the invariant (C1 to C12), the problem, and whether a sweep of a hub repairs it."""

    invariant: str
    problem: str
    settles: bool = False


SLOTS = {
    "record broken": Trouble("C1", "the hub's record of it lacks its item, pool or node", settles=True),
    "held for nothing": Trouble("C1", "held back although its node neither drains nor is suspect"),
    "offered while draining": Trouble("C1", "on offer although its node drains"),
    "offered unwell": Trouble("C1", "on offer although its node or an operator holds it"),
    "offered unfresh": Trouble("C1", "on offer although its node has not made it fresh"),
    "not of its node": Trouble("C10", "not among the slots of its node, so the death of the node would not take it"),
    "not of its pool": Trouble("C1", "not among the slots published under its label"),
    "part differs": Trouble("C10", "kept under another key part than that of its node, whose death would not take it"),
    "node unknown": Trouble("C10", "on offer, but its node is not registered, so that its death would not be noticed"),
    "no session": Trouble("C2", "lent, but there is no session", settles=True),
    "no deadline": Trouble("C2", "lent, but no deadline would ever end it", settles=True),
    "label differs": Trouble("C4", "lent, but session and record name different labels it was asked for under"),
    "pool differs": Trouble("C2", "lent, but the session names another pool"),
    "token differs": Trouble("C2", "lent, but the token its node is told is not that of the session"),
    "not counted": Trouble("C4", "lent, but not counted for the label it was asked for under"),
    "not of its bundle": Trouble("C2", "lent, but its bundle lacks it, whose renewal and return would miss it"),
    "not of its team": Trouble("C4", "lent, but not counted for the team of its holder"),
    "recalled in vain": Trouble("C4", "would end for another team, but is not among the leases that are recalled"),
    "not of its run": Trouble("C4", "lent, but not listed for its run"),
    "footprint gone": Trouble("C2", "lent, but its footprint was deleted before the lease is over", settles=True),
    "session left": Trouble("C3", "not lent, but there is a session"),
    "deadline left": Trouble("C3", "not lent, but there is a deadline"),
    "footprint left": Trouble("C3", "not lent, but there is a footprint of a lease"),
    "lease left": Trouble("C3", "not lent, but its record still names a lease"),
    "token left": Trouble("C3", "not lent, but its node is told a token"),
    "token above": Trouble("C2", "its token is above the counter, so that the next lease's would not be greater"),
    "overdue": Trouble("C10", "its lease is over by more than a sweep interval"),
    "not of its task": Trouble("C10", "lent to a task that does not have it, whose end would not end the lease"),
    "footprint for ever": Trouble("C12", "a footprint that never lapses, and no session"),
}
PLACES = {
    "listed twice": Trouble("C1", "listed more than once"),
    "listed elsewhere": Trouble("C1", "listed in another place than the hub's record says", settles=True),
    "listed nowhere": Trouble("C1", "in no list, though the hub's record says so", settles=True),
}
MEMBERS = {"stray": Trouble("C12", "names what does not belong there", settles=True)}
# A stray member of these indexes does harm, and each has a sentence of its own.
STRAYS = {
    "served": Trouble("C4", "counts a lease that is over or that another pool serves", settles=True),
    "in_flight": Trouble("C4", "counts a lease that is over or was asked for under another label", settles=True),
    "free_in": Trouble("C1", "would have a slot lent that is not free there, or has another class", settles=True),
    "warm": Trouble("C1", "would have a slot lent that is not free there, or in which this is not warm", settles=True),
    "want_line": Trouble("C6", "names a ticket that does not wait there"),
    "bundles": Trouble("C6", "names a ticket that does not wait there"),
    "team_leases": Trouble("C4", "counts a lease that is over, or that another team holds", settles=True),
    "team_line": Trouble("C6", "names a ticket that does not wait there", settles=True),
    "recalled": Trouble("C4", "names a lease whose record does not say so, or that is over", settles=True),
    "reserved": Trouble("C5", "names a slot that is not held, or set aside for no bundle", settles=True),
    "team_parked": Trouble("C5", "keeps a label from a team although its cap is not reached", settles=True),
    "parked": Trouble("C5", "keeps a label from slots of a class although its cap is not reached", settles=True),
}
POOLS = {
    "pool unknown": Trouble("C1", "has slots, but is not among the known pools"),
    "pool left": Trouble("C12", "among the known pools, but has no slots"),
    "not open": Trouble("C5", "has free slots, but is not among the pools that have", settles=True),
    "open left": Trouble("C12", "among the pools with free slots, but has no slots"),
}
NODES = {
    "dead": Trouble("C10", "silent for longer than its timeout and a sweep interval, and still on the books"),
    "drain unlisted": Trouble("C12", "drains, but is not listed as draining"),
    "drain unmarked": Trouble("C12", "listed as draining, but does not drain"),
    "deadline left": Trouble("C12", "has the deadline of a drain, but does not drain"),
}
PARTS = {
    "leaving": Trouble("C10", "off the books, but its slots have not all been taken back", settles=True),
    "hash left": Trouble("C12", "described, but not registered"),
    "duty left": Trouble("C12", "orders are kept for it, but it is neither registered nor owns anything"),
}
CLASSED = {
    "class unknown": Trouble("C12", "has a class of which no attributes are known"),
    "class unlisted": Trouble("C5", "has a class that is not among the classes, so that new waits would not find it"),
    "hidden": Trouble(
        "C5", "free, but not listed under its class or its warm keys: `where` would miss it", settles=True
    ),
}
OFFERS = {
    "not first": Trouble(
        "C5", "not listed in its pool since its first free slot is free, or its pool not among those with such"
    )
}
STOCKS = {"differs": Trouble("C12", "says of a class that more, or fewer, slots have it than do")}
LINES = {
    "want lost": Trouble("C5", "waited for, but what its tickets want was lost, so that no slot would suit"),
    "not fitting": Trouble("C5", "waited for, but a class that suits does not know of it"),
    "not offered": Trouble("C5", "waited for, but freed slots of a class that suits would not find its label"),
}
WANTS = {
    "miscounted": Trouble("C12", "the number kept of its lines is not how many there are"),
    "left": Trouble("C12", "kept, but no ticket wants it"),
}
STORE = {
    "counter low": Trouble("C2", "the token counter is below where it began, so tokens would come a second time"),
    "queue forgotten": Trouble("C5", "says that no borrower waits, and one does"),
    "caps forgotten": Trouble("C4", "says that there is no cap, and there is one"),
    "rules forgotten": Trouble("C10", "says that no pool has a rule, and one has"),
    "bundles forgotten": Trouble("C5", "says that no bundle waits, and one does"),
    "teams forgotten": Trouble("C5", "does not know how teams are to share pools, or not of the last change"),
    "teams remembered": Trouble("C12", "says that teams share pools, and none does"),
    "bundles remembered": Trouble("C12", "says that a bundle waits, and none does"),
    "matching forgotten": Trouble("C5", "says that no slot has attributes and no ticket wants any, and one does"),
}
TICKETS = {
    "not in its lines": Trouble("C5", "waits, but not in each queue and line in which it should, or not at its place"),
    "unattended": Trouble("C6", "waits, but is not among the waiters of its hub"),
    "endless": Trouble("C12", "waits, and nothing would ever drop it"),
    "abandoned": Trouble("C10", "waits, but the hub that would answer is gone", settles=True),
    "left": Trouble("C12", "neither waits nor was granted, and nothing would ever drop it"),
}
QUEUES = {
    "no turn": Trouble("C5", "is waited for, but has no turn, so that its queue would not be served"),
    "turn left": Trouble("C12", "has a turn, but no waiter"),
    "no ticket": Trouble("C6", "the first in its queue has no ticket"),
    "not offered": Trouble("C5", "is waited for, but freed slots would not find it"),
    "offered": Trouble("C4", "freed slots would find it, but it has no waiter or its cap is reached"),
}
WAITS = {"waited for": Trouble("C5", "has a free slot and a waiter that may use it", settles=True)}
RUNS = {"miscounted": Trouble("C12", "the number of its waiters is not what is kept of it")}
HUBS = {
    "waiters left": Trouble("C10", "is gone, but waiters of it are left", settles=True),
    "undelivered": Trouble("C6", "is gone, but leases it never delivered are left", settles=True),
}
RESERVER = {
    "in vain": Trouble("C5", "has slots set aside for a ticket that does not wait", settles=True),
    "other room": Trouble("C4", "keeps room under caps for other leases than its bundle wants"),
}
POLICIES = {"too much": Trouble("C5", "guarantees teams more slots than are published, which not all can have")}
SHARES = {"differs": Trouble("C5", "is not what follows from the leases of the team, so that its turn would be wrong")}
TEAM_LINES = {
    "not found": Trouble("C5", "waited in, but freed slots would not find it by its label and its team"),
    "too late": Trouble("C5", "waited in, but freed slots would not find what its tickets want, or only after others"),
    "not offered": Trouble("C5", "waited in, but freed slots would not find its label for the team, or only too late"),
}
LIFETIMES = {"for ever": Trouble("C12", "has no lifetime, and nothing would ever delete it")}
KEYS = {
    "unknown": Trouble("C12", "no key of this hub is called so, and nothing would ever delete it"),
    "wrong type": Trouble("C12", "holds something else than the hub keeps there"),
}
LIBRARIES = {"unused": Trouble("C12", "a library of functions that no hub has used for a day")}
TOKENS = {"same token": Trouble("C2", "two leases have this token")}
UNREADABLE = Trouble("C12", "cannot be read: a key of it holds something else than the hub keeps there")
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
    "not under its limits": Trouble("C9", "claimed or in its queue, but not counted so under each limit of its job"),
    "slots lost": Trouble("C9", "has lost a slot, and its attempt would go on without"),
    "slots lapse": Trouble("C10", "has slots that the heartbeats of its worker do not renew"),
    "slots left": Trouble("C12", "says that it has slots, but no worker has it"),
}
GROUPS = {
    "unknown": Trouble("C9", "its job has no such limit, so that what it keeps would wait for ever"),
    "unlisted": Trouble("C9", "not among the groups of its job, whose next limits would not let go of its tasks"),
    "forgotten": Trouble("C9", "has room, or will have it, and nothing would let in the tasks that it keeps"),
}
ENTRIES = {"stray": Trouble("C12", "names what does not belong there")}
# A stray member of these indexes does harm, and each has a sentence of its own.
ENTRY_STRAYS = {
    **dict.fromkeys(("room_tasks", "job_tasks"), Trouble("C9", "lists a task under what it is not, or not any more")),
    "job_queue": Trouble("C9", "would let a task be claimed that does not wait there"),
    "heads": Trouble("C9", "would have a queue looked at that is empty"),
    "later": Trouble("C9", "would queue a task that is not put off"),
    "limit_taken": Trouble("C9", "counts a task that neither runs nor is queued under this limit, whose room is lost"),
    **dict.fromkeys(("limit_held", "limit_backlog"), Trouble("C9", "keeps a task that does not wait there")),
    "limits_due": Trouble("C12", "says that a limit has room in more than a day, which none takes"),
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
    "terms forgotten": Trouble("C9", "has needs or limits, and the store says that no job has"),
    "terms unreadable": Trouble("C9", "what it needs, or its limits, cannot be read, so that its tasks run without"),
    "backlog": Trouble("C9", "has tasks that waited when its limits changed, and nothing would let them in"),
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
