"""`hub agent`: announces this machine, or the life of a command, and heartbeats for it."""

from __future__ import annotations

import asyncio
import os
import signal

from hub.cli.child import Child, Signals
from hub.cli.reach import Address
from hub.client import AgentOptions, NodeAgent
from hub.observability.logs import get_logger
from hub.settings import mask_url

# A command that must go because its node may not be announced: time to put things in order.
STOP_GRACE_S = 10.0
_log = get_logger("hub.agent")


async def announce(at: Address, node: str, options: AgentOptions, command: list[str]) -> int:
    """Be the node until a signal, or until the command has ended, then leave; the exit code."""
    machine = _Machine(at, node, options)
    with Signals(lambda signum: machine.leave(signum.name)) as signals:
        if not command:
            await machine.be()
            return 0
        # The command first: what is announced should be there.
        child = await Child.start(command, {**os.environ, "HUB_NODE_ID": node}, when_we_die=signal.SIGTERM)
        signals.then = child.forward
        being = asyncio.create_task(machine.be())
        ended = asyncio.create_task(child.wait())
        await asyncio.wait((being, ended), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            machine.leave(f"the command ended with status {ended.result()}")
        else:
            await child.stop(STOP_GRACE_S)
        await being
        return await ended


class _Machine:
    """The node of this process, and what its log says about it."""

    def __init__(self, at: Address, node: str, options: AgentOptions) -> None:
        self._facts = {"node": node, "slots": sum(options.get("pools", {}).values()), "hub": mask_url(at.url)}
        options["url"], options["secret"], options["on_drain"] = at.url, at.secret, _say_drain
        self._agent = NodeAgent(node, **options)
        self._left = False

    async def be(self) -> None:
        """Announce the node and keep it alive until `leave`; raises what the hub refuses for good."""
        _log.info("announcing", **self._facts)
        async with self._agent:
            if not self._left:
                _log.info("announced", **self._facts)
            await self._agent.stopped()

    def leave(self, why: str) -> None:
        """Let `be` come to its end."""
        _log.info("leaving", node=self._agent.node_id, why=why)
        self._left = True
        self._agent.stop()


def _say_drain(on: bool) -> None:
    _log.info("draining" if on else "lending again", why="an operator said so")
