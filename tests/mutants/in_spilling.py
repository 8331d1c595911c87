"""Mistakes in the scripts of spill-over, which no machine plays: the tests of `tests/realms` find them."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

FILE = "tests/realms/test_spilling_scripts.py"
SPILLING = (
    Mistake(
        "spill_over.lua",
        "  if not (t.label and redis.call('ZSCORE', keys.queue(t.label), t.id)) then",
        "  if not t.label then",
        "a ticket is served elsewhere that is not in the queue any more",
        file=FILE,
    ),
    Mistake(
        "spill_over.lua",
        "  tickets.step_out(t)\n",
        "",
        "a ticket that was served elsewhere stays in the queue",
        file=FILE,
    ),
    Mistake(
        "spill_over.lua",
        "  redis.call('SET', keys.request(t.id), record, 'EX', t.keep_s)\n",
        "",
        "a ticket does not know that it was served elsewhere",
        file=FILE,
    ),
    Mistake(
        "spill_over.lua",
        "  handoffs.leave_place(t)\n",
        "",
        "a ticket that was served elsewhere has its place still",
        file=FILE,
    ),
    Mistake(
        "spill_over.lua",
        "  redis.call('HSET', keys.elsewhere(there.slot), there.token, there.realm)\n",
        "",
        "home forgets which realm has lent a slot",
        file=FILE,
    ),
    Mistake(
        "spill_over.lua",
        "  history.note('ticket.elsewhere', ",
        "  tostring('ticket.elsewhere', ",
        "it is not shown that a ticket was served elsewhere",
        file=FILE,
    ),
    Mistake(
        "commands/queue/unserve.lua",
        "or there.request ~= a.request then",
        "then",
        "a lease that was taken back elsewhere takes a later one with it",
        file=FILE,
    ),
    Mistake(
        "commands/queue/unserve.lua",
        "  redis.call('DEL', keys.request(a.ticket))\n",
        "",
        "a ticket is answered with a lease that was taken back elsewhere",
        file=FILE,
    ),
    Mistake(
        "commands/queue/unserve.lua",
        "  redis.call('HDEL', keys.elsewhere(there.slot), there.token)\n",
        "",
        "home remembers a realm that has taken its lease back",
        file=FILE,
    ),
    Mistake(
        "commands/queue/unserve.lua",
        "  handoffs.keep_place(tickets.read(a.ticket))\n",
        "",
        "a key loses its place by a lease that was taken back elsewhere",
        file=FILE,
    ),
    Mistake(
        "queue.lua",
        "there.asked == fingerprint and spill_over.said(there) or {'reused'}",
        "spill_over.said(there)",
        "a key gets the lease of another request, in another realm",
        file=FILE,
    ),
    Mistake(
        "commands/queue/cancel.lua",
        "  if there then return {'granted', there.slot} end\n",
        "",
        "a ticket is cancelled that was served elsewhere",
        file=FILE,
    ),
    Mistake(
        "commands/capacity/undo.lua",
        "    if a.why ~= 'gone' then return {'granted'} end\n",
        "",
        "a lease in another realm is taken back because the wait is over",
        file=FILE,
    ),
)
