"""What must hold, by name."""

RULES = frozenset(
    {
        "attempt",  # an attempt at a task ends when its worker says so, or is dead
        "back",  # nothing comes back that was ended
        "brake",  # many workers that are silent at once are given time, unless others are heard
        "cap",  # nobody is given more than a cap allows, or refused for one that was cleared
        "done",  # no task is given out whose end was taken
        "drain",  # nothing is lent of a node that drains
        "gone",  # nothing is done for a caller who can no longer hear of it
        "grace",  # what ended early is lent on when its holder has heard of it, or after the grace
        "healthy",  # nobody is expired who was heard a moment ago
        "idle",  # nobody waits beside a free slot
        "lost",  # no lease ends without a reason
        "lower",  # no lower token is valid after a higher one was given for the slot
        "nobody",  # nothing is lent to nobody
        "offer",  # what a node offers the hub knows
        "removed",  # a worker that was removed is on the books no more, and holds nothing
        "task",  # a worker knows of the tasks that it has in the books
        "token",  # no token is given twice, and they rise
        "twice",  # nobody is given a slot that somebody else holds, as far as he knows
        "withdrawn",  # a borrow that was given up is given nothing, and waits no more
    }
)
