"""`hub drain`, `hub cordon` and `hub undrain`: taking a node out of service without anybody noticing."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from hub.cli import completing, output
from hub.cli.child import Signals
from hub.cli.connection import Address, HubApi, connect, operating
from hub.cli.inputs import read_deadline, read_id
from hub.cli.options import AsJson, Secret, Url
from hub.cli.progress import Bar
from hub.errors import HubError, Unavailable, UnknownNode

LOOK_S = 1.0
NodeId = Annotated[
    str, typer.Argument(parser=read_id, metavar="NODE", help="The id of the node.", autocompletion=completing.nodes)
]


def drain(
    node: NodeId,
    deadline: Annotated[
        float | None,
        typer.Option(
            parser=read_deadline, metavar="TIME", help="End what is still lent then: 90s, 10m, 2h. Else never."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until the node is safe to kill.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Lend nothing more of a node; what is lent stays with its borrowers, until the deadline if there is one.

    Said again, the last deadline counts; without --deadline there is none any more.
    """
    asyncio.run(_drain(operating(url, secret), node, as_json, deadline_s=deadline, wait=wait))


def cordon(
    node: NodeId,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is shown wherever the node is.")],
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
) -> None:
    """Lend nothing more of a node, and say why; what is lent stays, and the node goes on. `hub undrain` ends it."""
    asyncio.run(_cordon(operating(url, secret), node, as_json, reason))


def undrain(node: NodeId, as_json: AsJson = False, url: Url = None, secret: Secret = None) -> None:
    """Lend of a drained or cordoned node again."""
    asyncio.run(_undrain(operating(url, secret), node, as_json))


async def _drain(at: Address, node: str, as_json: bool, *, deadline_s: float | None, wait: bool) -> None:
    """With `wait` it returns once the node can be shut down."""
    async with connect(at) as hub:
        answer = await hub.post("admin", "nodes", node, "drain", body={"deadlineSeconds": deadline_s})
        if wait:
            if not as_json:
                output.put(_draining(node, answer))
            answer = await _until_safe(hub, node)
    if as_json:
        output.put_json(answer)
    else:
        output.put(f"{node} is safe to kill: {answer.get('reason')}" if wait else _draining(node, answer))


async def _cordon(at: Address, node: str, as_json: bool, reason: str) -> None:
    async with connect(at) as hub:
        answer = await hub.post("admin", "nodes", node, "cordon", body={"reason": reason})
    if as_json:
        output.put_json(answer)
        return
    held, lent = answer.get("heldBack", 0), answer.get("lent", 0)
    output.put(
        f"{node} is cordoned ({answer.get('reason')}): {output.plural(held, 'slot')} held back, {lent} still lent."
    )


def _draining(node: str, answer: dict[str, Any]) -> str:
    held, lent, left = answer.get("heldBack", 0), answer.get("lent", 0), answer.get("deadlineSecondsLeft")
    until = "" if left is None else f"; what is lent ends in {output.duration(round(left))}"
    return f"{node} is draining: {output.plural(held, 'slot')} held back, {lent} still lent{until}."


async def _until_safe(hub: HubApi, node: str) -> dict[str, Any]:
    """What the hub says of a draining node once it is safe to kill; interrupted, the node goes on draining."""
    task = asyncio.current_task()
    assert task is not None
    told, bar = "", None
    with Signals(lambda _: task.cancel()), ExitStack() as drawn:
        try:
            while True:
                said = await _departure(hub, node)
                bar = bar or drawn.enter_context(Bar("returned", most := int(said.get("lent") or 0)))
                bar.to(most - int(said.get("lent") or 0))
                if said.get("safe"):
                    return said
                if said.get("draining") is False:
                    raise HubError(f"{node} does not drain any more: somebody else has undrained it.")
                if said.get("reason") != told:
                    told = str(said.get("reason"))
                    output.note(f"waiting: {told}")
                await asyncio.sleep(LOOK_S)
        except asyncio.CancelledError:
            raise HubError(f"Interrupted; {node} goes on draining.") from None


async def _departure(hub: HubApi, node: str) -> dict[str, Any]:
    """Whether a node is safe to kill. One that has gone is; a hub that cannot say makes it neither safe nor unsafe."""
    try:
        return await hub.get("nodes", node, "safe-to-kill")
    except UnknownNode:
        gone = "It is not registered any more, and nothing of it is lent."
        return {
            "nodeId": node,
            "safe": True,
            "draining": False,
            "lent": 0,
            "reason": gone,
            "deadlineSecondsLeft": None,
        }
    except Unavailable as error:
        return {"safe": False, "reason": error.detail or error.code}


async def _undrain(at: Address, node: str, as_json: bool) -> None:
    async with connect(at) as hub:
        answer = await hub.post("admin", "nodes", node, "undrain")
    if as_json:
        output.put_json(answer)
        return
    lent = answer.get("lent", 0)
    output.put(f"{node} lends again; {lent} of its slots {'is' if lent == 1 else 'are'} lent now.")
