"""Mistakes with which a caller ends, extends or gets what another holds; the machine's two users look for them."""

from __future__ import annotations

from tests.mutants.mistakes import Mistake

HOLDERS = (
    Mistake(
        "commands/capacity/give_back.lua", "  if holders.is_foreign(a.by, holder, a.token ~= '') then\n", "  if false then\n",
        "any caller ends the lease of a user",
    ),
    Mistake(
        "renewals.lua", "  if holders.is_foreign(by, holder, token ~= '') then return nil, holders.refusal(slot) end\n", "",
        "any caller extends the lease of a user",
    ),
    Mistake(
        "commands/queue/cancel.lua", "  if t.label and holders.is_foreign(", "  if false and holders.is_foreign(",
        "any caller gives up the ticket of a user",
    ),
    Mistake(
        "releases.lua", "  if holders.is_foreign(by, redis.call('HGET', keys.slot(slot), 'last_holder'), true) then return end\n", "",
        "any caller ends the grace of a user",
    ),
    Mistake(
        "holders.lua", "  return by ~= holders.of(holder).user_id\n", "  return (by == '') ~= (holders.of(holder).user_id == '')\n",
        "one user ends what another holds",
    ),
    Mistake(
        "holders.lua", "  return by ~= holders.of(holder).user_id\n", "  return holders.of(holder).user_id ~= '' and by ~= holders.of(holder).user_id or by ~= '' and not knows_token\n",
        "a user that knows the token ends what a shared secret holds",
    ),
    Mistake(
        "holders.lua", "'holder', 'user', 'user_id', 'team')", "'holder')",
        "the next holder of a slot counts as the one before",
    ),
    Mistake(
        "handoffs.lua", "  leases.grant(t, found)\n", "  t.holder = ''\n  leases.grant(t, found)\n",
        "a lease that was waited for has no holder",
    ),
)  # fmt: skip
