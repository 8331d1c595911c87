"""`hub agent`: announces this machine, or the life of a command, and heartbeats for it."""

from __future__ import annotations

import asyncio
import signal

from hub.cli.child import Child, Signals
from hub.cli.reach import Address
from hub.client import AgentOptions, NodeAgent
from hub.observability.logs import get_logger

# A command that must go because its node may not be announced: time to put things in order.
STOP_GRACE_S = 10.0
_log = get_logger("hub.agent")


async def announce(at: Address, node: str, options: AgentOptions, command: list[str]) -> int:
    """Be the node until a signal, or until the command has ended, then leave; the exit code."""
    count = sum(options.get("pools", {}).values())
    options["url"], options["secret"], options["on_drain"] = at.url, at.secret, _say_drain
    agent = NodeAgent(node, **options)
    with Signals(lambda _: agent.stop()) as signals:
        if not command:
            await _be(agent, at, count, signals)
            return 0
        # The command first: what is announced should be there.
        child = await Child.start(command, {"HUB_NODE_ID": node}, when_we_die=signal.SIGTERM)
        signals.then = child.forward
        being = asyncio.create_task(_be(agent, at, count, signals))
        ended = asyncio.create_task(child.wait())
        await asyncio.wait((being, ended), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            _log.info("command ended", status=ended.result())
            agent.stop()
        else:
            await child.stop(STOP_GRACE_S)
        await being
        return await ended


async def _be(agent: NodeAgent, at: Address, count: int, signals: Signals) -> None:
    _log.info("announcing", node=agent.node_id, slots=count, hub=at.url)
    async with agent:
        _log.info("announced", node=agent.node_id, slots=count, hub=at.url)
        await agent.stopped()
        _log.info("leaving", node=agent.node_id, why=signals.seen.name if signals.seen else "the command ended")


def _say_drain(on: bool) -> None:
    _log.info("draining" if on else "lending again", why="the hub was told so")
