"""`hub drain`, `hub cordon` and `hub undrain`: stop and resume lending the slots of a node."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from typer import Option

from hub.cli import output
from hub.cli.answers import CommandAnswer
from hub.cli.child import interruptible
from hub.cli.command import command
from hub.cli.connection import HubApi, Row
from hub.cli.inputs import read_deadline
from hub.cli.options import AS_JSON, NODE, TEXT, Input
from hub.cli.progress import bar
from hub.errors import HubError, Unavailable, UnknownNode

LOOK_S = 1.0
_NODE = NODE.argument("The id of the node.")


@command("admin")
async def drain(
    hub: HubApi,
    node: str = _NODE,
    deadline: float | None = Input("TIME", read_deadline).option(
        "End leases after this time: 90s, 10m, 2h. Default: never."
    ),
    wait: bool = Option(False, "--wait", help="Wait until the node is safe to switch off."),
    as_json: bool = AS_JSON,
) -> CommandAnswer:
    """Stop lending the slots of a node. Leases go on, until the deadline if there is one.

    Repeat the command to change the deadline, or without --deadline to remove it.
    """
    answer = await hub.ask("POST", "admin", "nodes", node, "drain", body={"deadlineSeconds": deadline})
    if not wait:
        return CommandAnswer(answer, _draining(node, answer))
    if not as_json:
        output.put(_draining(node, answer))
    with interruptible(f"Interrupted; {node} goes on draining."):
        answer = await _until_safe(hub, node)
    return CommandAnswer(answer, f"{node} is safe to kill: {answer.get('reason')}")


@command("admin")
async def cordon(
    hub: HubApi,
    node: str = _NODE,
    reason: str = TEXT.option("The reason. It is shown wherever the node is.", "--reason", default=...),
) -> CommandAnswer:
    """Stop lending the slots of a node, for a reason. Leases and the node go on; `hub undrain` ends the cordon."""
    answer = await hub.ask("POST", "admin", "nodes", node, "cordon", body={"reason": reason})
    held, lent = answer.get("heldBack", 0), answer.get("lent", 0)
    slots = f"{output.plural(held, 'slot')} held back, {lent} still lent"
    return CommandAnswer(answer, f"{node} is cordoned ({answer.get('reason')}): {slots}.")


@command("admin")
async def undrain(hub: HubApi, node: str = _NODE) -> CommandAnswer:
    """Lend the slots of a drained or cordoned node again."""
    answer = await hub.ask("POST", "admin", "nodes", node, "undrain", body={})
    lent = answer.get("lent", 0)
    return CommandAnswer(answer, f"{node} lends again; {lent} of its slots {'is' if lent == 1 else 'are'} lent now.")


def _draining(node: str, answer: Row) -> str:
    held, lent, left = answer.get("heldBack", 0), answer.get("lent", 0), answer.get("deadlineSecondsLeft")
    until = "" if left is None else f"; what is lent ends in {output.duration(round(left))}"
    return f"{node} is draining: {output.plural(held, 'slot')} held back, {lent} still lent{until}."


async def _until_safe(hub: HubApi, node: str) -> Row:
    """Wait until a draining node is safe to kill, and return the last answer."""
    noted, moved_to = "", None
    with ExitStack() as drawn:
        while True:
            answer = await _departure(hub, node)
            lent = int(answer.get("lent") or 0)
            moved_to = moved_to or drawn.enter_context(bar("returned", most := lent))
            moved_to(most - lent)
            if answer.get("safe"):
                return answer
            if answer.get("draining") is False:
                raise HubError(f"{node} does not drain any more: another operator has undrained it.")
            if answer.get("reason") != noted:
                noted = str(answer.get("reason"))
                output.note(f"waiting: {noted}")
            await asyncio.sleep(LOOK_S)


async def _departure(hub: HubApi, node: str) -> Row:
    """Ask whether a node is safe to kill. A node that is not registered is; while the hub cannot say, it is not."""
    try:
        return await hub.get("nodes", node, "safe-to-kill")
    except UnknownNode:
        gone = "It is not registered any more, and nothing of it is lent."
        return {"nodeId": node, "safe": True, "draining": False, "lent": 0, "reason": gone, "deadlineSecondsLeft": None}
    except Unavailable as error:
        return {"safe": False, "reason": error.detail or error.code}
