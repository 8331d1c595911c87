"""`hub slot hold` and `hub slot release`: stop and resume lending one slot."""

from __future__ import annotations

from hub.cli import output
from hub.cli.answers import HOLDERS, CommandAnswer
from hub.cli.command import command
from hub.cli.connection import HubApi, Row
from hub.cli.options import SLOT, TEXT

_SLOT = SLOT.argument("The id of the slot.")


@command("admin")
async def hold(
    hub: HubApi,
    slot: str = _SLOT,
    reason: str = TEXT.option("The reason. It is shown wherever the slot is.", "--reason", default=...),
) -> CommandAnswer:
    """Stop lending a slot that is unwell, for a reason. A lease of it goes on; its holder is told the reason."""
    answer = await hub.ask("POST", "admin", "slots", slot, "hold", body={"reason": reason})
    lent = "it is still lent, and its holder is told" if answer.get("lent") else "it is not lent"
    return CommandAnswer(answer, f"{slot} is held ({output.one_line(reason.strip())}): {lent}.")


@command("admin")
async def release(hub: HubApi, slot: str = _SLOT) -> CommandAnswer:
    """Lend a slot again that an operator has held. While its node holds it as well, it stays held."""
    answer = await hub.ask("DELETE", "admin", "slots", slot, "hold")
    return CommandAnswer(answer, f"{slot} {_after(answer)}.")


def _after(answer: Row) -> str:
    if answer.get("held"):
        who = HOLDERS.get(str(answer.get("heldBy")), "another")
        return f"stays held by {who} ({output.one_line(str(answer['held']))})"
    return "is held no longer; it is lent now" if answer.get("lent") else "is held no longer"
