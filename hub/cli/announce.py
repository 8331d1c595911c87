"""`hub agent`: announces this machine as a node, and sends its heartbeats until a signal or while a command runs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path
from typing import Literal

import typer
from typer import Option

from hub.cli.child import Child, Signals
from hub.cli.connection import Address, address
from hub.cli.environment import environment
from hub.cli.inputs import Pair, PoolOption, Usage, check_command, each_once, read_id, read_pair, read_pool, read_url
from hub.cli.options import COMMAND, SECRET, URL, Input
from hub.client import AgentOptions, NodeAgent
from hub.client.signals import named
from hub.observability.logs import configure_logs, get_logger
from hub.settings import load_settings, mask_url

# Seconds that the command gets to end by itself when its node may not be announced any more.
STOP_GRACE_S = 10.0
_log = get_logger("hub.agent")


def agent(
    command: list[str] | None = COMMAND,
    node: str | None = Input("NODE", read_id).option("The id of the node. Default: HUB_NODE_ID, then the host name."),
    slots: list[PoolOption] | None = Input("LABEL=N", read_pool).option("Lend N slots of LABEL. Repeatable."),
    label: list[Pair] | None = Input("KEY=VALUE", read_pair).option("A label of the machine. Repeatable."),
    base_url: str | None = Input("URL", read_url).option("The URL of the machine itself, apart from its slots."),
    policy: Literal["reuse", "recycle"] = Option(
        "reuse", help="Lend a returned slot again as it is, or once the node has recycled it."
    ),
    join_token_file: Path | None = Option(
        None, exists=True, dir_okay=False, metavar="FILE", help="A file with a join token. Default: HUB_JOIN_TOKEN."
    ),
    token_file: Path | None = Option(
        None,
        dir_okay=False,
        metavar="FILE",
        help="The file that keeps the token of the node. Default: HUB_NODE_TOKEN_FILE.",
    ),
    url: str | None = URL,
    secret: str | None = SECRET,
) -> int:
    """Announce this machine and its slots, and send heartbeats until SIGTERM or Ctrl-C, or while COMMAND runs."""
    offered, facts = slots or [], label or []
    each_once(offered, "--slots")
    each_once(facts, "--label")
    if command:
        check_command(command)
    where = address(url, secret, "node")
    name = node or _own_node_id()
    options = AgentOptions(
        pools=dict(offered), labels=dict(facts), apps=[pool.label for pool in offered], policy=policy, pod=True
    )
    if base_url is not None:
        options["base_url"] = base_url
    if join_token_file is not None:
        options["join_token"] = join_token_file.read_text().strip()
    if token_file is not None:
        options["token_file"] = str(token_file)
    configure_logs(load_settings())
    return asyncio.run(_announce(where, name, options, command or []))


def _own_node_id() -> str:
    named = environment().get("HUB_NODE_ID", "").strip()
    try:
        return read_id(named or socket.gethostname())
    except typer.BadParameter as error:
        raise Usage(f"HUB_NODE_ID: {error.message}") from None


async def _announce(at: Address, node: str, options: AgentOptions, command: list[str]) -> int:
    """Announce the node until a signal, or until the command has ended; return the exit code."""
    machine = _Machine(at, node, options)
    with Signals(lambda number: machine.leave(named(number))) as signals:
        if not command:
            await machine.be()
            return 0
        # The command is started first, so that nothing is announced that does not run.
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
    """The node of this process, whose beginning, orders and end are logged."""

    def __init__(self, at: Address, node: str, options: AgentOptions) -> None:
        self._facts = {"node": node, "slots": sum(options.get("pools", {}).values()), "hub": mask_url(at.url)}
        options["url"], options["secret"], options["on_drain"] = at.url, at.secret, _log_drain
        self._agent = NodeAgent(node, **options)
        self._left = False

    async def be(self) -> None:
        """Announce the node and send its heartbeats until `leave`; raises the refusal when the hub refuses for good."""
        _log.info("node announcing", **self._facts)
        async with self._agent:
            if not self._left:
                _log.info("node announced", **self._facts)
            await self._agent.stopped()

    def leave(self, why: str) -> None:
        """Make `be` leave the hub and return; log the reason `why`."""
        _log.info("node leaving", node=self._agent.node_id, why=why)
        self._left = True
        self._agent.stop()


def _log_drain(on: bool) -> None:
    _log.info("node draining" if on else "node lending again", why="an operator said so")
