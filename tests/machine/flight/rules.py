"""The rules that must hold, by name."""

RULES = frozenset(
    {
        "aside",  # no slot is set aside for a bundle that is no longer waited for
        "attempt",  # an attempt at a task ends when its worker says so, or is dead
        "back",  # nothing comes back that was ended
        "below",  # no recall takes a team below its guarantee
        "brake",  # many workers that are silent at once are given time, unless others are heard
        "cap",  # no more is lent than a cap allows, and none refused for a cap that was cleared
        "ceiling",  # no team has more than its ceiling
        "done",  # no task is given out whose end was taken
        "drain",  # nothing is lent of a node that drains
        "foreign",  # no caller ends or extends what another holds
        "fresh",  # no slot of a node that makes slots fresh is lent as its last holder left it
        "gone",  # nothing is done for a caller who can no longer hear of it
        "grace",  # what ended early is lent on when its holder has heard of it, or after the grace
        "healthy",  # no node is expired that was heard a moment ago
        "idle",  # no borrow waits beside a free slot
        "lost",  # no lease ends without a reason
        "lower",  # no lower token is valid after a higher one was given for the slot
        "nobody",  # nothing is lent without a holder
        "offer",  # what a node offers the hub knows
        "once",  # a task succeeds once
        "removed",  # a worker that was removed is on the books no more, and holds nothing
        "stays",  # no slot stays lent for a task that has ended
        "suits",  # no slot is lent to a borrow whose `where` it did not suit
        "task",  # a worker knows of the tasks that it has in the books
        "token",  # no token is given twice, and they rise
        "torn",  # with a lease that is lost the others of its bundle end, where they are held together
        "twice",  # no slot is lent that another holder still believes in
        "typed",  # of what its slots are like, a node's last word counts
        "unwell",  # no slot is lent that its node or an operator holds, and what a node says of that is what counts
        "withdrawn",  # a borrow that was given up is given nothing, and waits no more
        "whole",  # a bundle is lent whole or not at all
    }
)
