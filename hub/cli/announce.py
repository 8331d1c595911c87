"""`hub agent`: announces this machine as a node, and sends its heartbeats until a signal or while a command runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import typer
from typer import Option

from hub.cli.child import Child, Signals, interruptible
from hub.cli.connection import Address, address
from hub.cli.environment import environment
from hub.cli.inputs import (
    InputEnded,
    Pair,
    PoolOption,
    Usage,
    check_command,
    each_once,
    read_id,
    read_pair,
    read_pool,
    read_url,
)
from hub.cli.options import COMMAND, FILE, SECRET, URL, Input
from hub.cli.tables import put_table
from hub.client import AgentOptions, NodeAgent
from hub.client.node import NODE_TAKEN
from hub.client.signals import named
from hub.errors import InvalidValue, NodeTaken, Superseded
from hub.observability.logs import configure_logs, get_logger
from hub.settings import load_settings, mask_url

# Seconds that the command gets to end by itself when its node may not be announced any more.
STOP_GRACE_S = 10.0
ATTRIBUTE = Input("NAME=VALUE", read_pair).option(
    "An attribute of each of --slots. VALUE is JSON, as 80, true or '[\"nvlink\"]', or a text. Repeatable.",
    "--attribute",
)
JOIN_TOKEN_FILE = Option(
    None, exists=True, dir_okay=False, metavar="FILE", help="A file with a join token. Default: HUB_JOIN_TOKEN."
)
TOKEN_FILE = Option(
    None, dir_okay=False, metavar="FILE", help="Where the token of the node is kept. Default: HUB_NODE_TOKEN_FILE."
)
_log = get_logger("hub.agent")


def agent(
    command: list[str] | None = COMMAND,
    node: str | None = Input("NODE", read_id).option("The id of the node. Default: HUB_NODE_ID, then the host name."),
    slots: list[PoolOption] | None = Input("LABEL=N", read_pool).option("Lend N slots of LABEL. Repeatable."),
    slot_address: str | None = Input("URL").option(
        "Where each of --slots is reached; it may name {host}, {slot}, {index} and {node}.", "--address"
    ),
    attribute: list[Pair] | None = ATTRIBUTE,
    warm: list[str] | None = Input("KEY").option("What is warm in each of --slots, such as repo-42. Repeatable."),
    fleet: Path | None = FILE.option("Lend what this fleet file says, and keep it alive; see `hub manual fleet`."),
    check: bool = Option(False, "--check", help="Start, check and stop each slot of --fleet once, without a hub."),
    label: list[Pair] | None = Input("KEY=VALUE", read_pair).option("A label of the machine. Repeatable."),
    base_url: str | None = Input("URL", read_url).option("The URL of the machine itself, apart from its slots."),
    policy: Literal["reuse", "recycle", "fresh"] = Option(
        "reuse",
        help="Lend a returned slot as it is (reuse), preferably after the node has recycled it (recycle), or only "
        "after that (fresh, which needs --fleet).",
    ),
    join_token_file: Path | None = JOIN_TOKEN_FILE,
    token_file: Path | None = TOKEN_FILE,
    url: str | None = URL,
    secret: str | None = SECRET,
) -> int:
    """Announce this machine and its slots, and send heartbeats until SIGTERM or Ctrl-C, or while COMMAND runs.

    Exit codes: that of COMMAND, else 0; 76 where another machine or process is the node, 1 after another refusal.
    """
    offered, facts, about = slots or [], label or [], _described(attribute or [], warm or [])
    each_once(facts, "--label")
    _check_what_is_lent(offered, slot_address, about, command or [], policy, fleet, check=check)
    configure_logs(load_settings())
    if check and fleet is not None:
        return asyncio.run(_try_out(fleet, node))
    where = address(url, secret, "node")
    name = node or _own_node_id(fleet)
    apps = [pool.label for pool in offered]
    options = AgentOptions(pools=dict(offered), labels=dict(facts), apps=apps, policy=policy, pod=True)
    if base_url is not None:
        options["base_url"] = base_url
    if join_token_file is not None:
        options["join_token"] = join_token_file.read_text().strip()
    if token_file is not None:
        options["token_file"] = str(token_file)
    if slot_address is not None or about:
        options["pools"], options["slots"] = {}, [{**slot, **about} for slot in _listed(offered, name, slot_address)]
    work = _announce(where, name, options, command or []) if fleet is None else _lend(where, name, options, fleet)
    try:
        return asyncio.run(work)
    except (NodeTaken, Superseded) as error:
        raise InputEnded(str(error), NODE_TAKEN) from None


def _check_what_is_lent(
    offered: list[PoolOption],
    slot_address: str | None,
    about: dict[str, Any],
    command: list[str],
    policy: str,
    fleet: Path | None,
    *,
    check: bool,
) -> None:
    """Refuse options that contradict each other; raises `Usage`."""
    each_once(offered, "--slots")
    if command:
        check_command(command)
    if fleet is not None and (offered or slot_address or about or command):
        raise Usage("--fleet says what is lent: leave out --slots, --address, --attribute, --warm and COMMAND.")
    if fleet is None and policy == "fresh":
        raise Usage("--policy fresh needs a program that makes a slot fresh: name it in a fleet file, --fleet FILE.")
    if fleet is None and check:
        raise Usage("--check tries a fleet file out: say --fleet FILE.")
    if slot_address is not None and not offered:
        raise Usage("--address says where the slots are: say --slots LABEL=N as well.")
    if about and not offered:
        raise Usage("--attribute and --warm say what the slots are like: say --slots LABEL=N as well.")


def _described(attribute: list[Pair], warm: list[str]) -> dict[str, Any]:
    """Return the members of each slot for these options; raises `Usage` for what no hub takes."""
    from hub.capacity.attributes import read_attributes, read_warm

    each_once(attribute, "--attribute")
    try:
        attributes = json.loads(read_attributes({name: _value(text) for name, text in attribute}))
        keys = read_warm(warm).split()
    except InvalidValue as error:
        raise Usage(f"{error}.") from None
    return ({"attributes": attributes} if attributes else {}) | ({"warm": keys} if keys else {})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _own_node_id(fleet: Path | None) -> str:
    named = environment().get("HUB_NODE_ID", "").strip()
    if fleet is not None:
        from hub.fleet.file import read_fleet

        named = read_fleet(fleet).node or named
    try:
        return read_id(named or socket.gethostname())
    except typer.BadParameter as error:
        raise Usage(f"HUB_NODE_ID: {error.message}") from None


def _listed(offered: list[PoolOption], node: str, address: str | None) -> Iterator[dict[str, Any]]:
    from hub.fleet.templates import checked, filled

    try:
        checked(address or "", ("host", "slot", "index", "node"))
    except ValueError as error:
        raise Usage(f"--address {error}") from None
    for label, count in offered:
        for index in range(count):
            slot = f"{node}-{label.replace(':', '.')}-{index + 1}"
            names = {"host": socket.gethostname(), "slot": slot, "index": index, "node": node}
            there = {} if address is None else {"endpoint": filled(address, names.__getitem__)}
            yield {"slotId": slot, "labelKey": label, **there}


async def _try_out(path: Path, node: str | None) -> int:
    """Start, check and stop each slot of a fleet file; print how it went, and return 1 when one failed."""
    from hub.fleet.file import read_fleet
    from hub.fleet.runs import new_run
    from hub.fleet.trial import try_out

    file = read_fleet(path)
    with interruptible("The trial was broken off."):
        async with new_run(node or _own_node_id(path), file.host or socket.gethostname()) as home:
            outcomes = await try_out(file, home)
    columns = ("SLOT", "DRIVER", "START", "CHECK", "STOP", "ADDRESS", "WHY")
    put_table(columns, [[outcome.get(column.lower(), "") for column in columns] for outcome in outcomes])
    return 1 if any("why" in outcome for outcome in outcomes) else 0


async def _lend(at: Address, node: str, options: AgentOptions, path: Path) -> int:
    """Lend what the fleet file says until a signal; SIGHUP has it read again while there is a terminal, or was none."""
    from hub.fleet.file import read_fleet
    from hub.fleet.fleet import Fleet
    from hub.fleet.runs import new_run

    file, had_terminal, reading = read_fleet(path), _has_terminal(), set()
    with interruptible() as signals:
        async with new_run(node, file.host or socket.gethostname()) as home:
            fleet = Fleet(file, home)
            options["apps"] = list({slot.driver.table.label: None for slot in await fleet.plan()})
            options["slots"], options["held"] = fleet.slots(), fleet.held()
            options["policy"], options["on_recycle"] = "fresh", fleet.make_fresh
            machine = _Machine(at, node, options)

            def got(number: int) -> None:
                if number == signal.SIGHUP and had_terminal == _has_terminal():
                    reading.add(asyncio.create_task(fleet.read_again(path)))
                else:
                    machine.leave(named(number))

            signals.then = got
            try:
                await machine.be(fleet.start)
            finally:
                await fleet.stop()
    return 0


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


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
        options["url"], options["secret"], options["on_drain"] = at.url, at.secret, _log_drain
        self._agent = NodeAgent(node, **options)
        self._facts = {"node": node, "slots": len(self._agent.slots), "hub": mask_url(at.url)}
        self._left = False

    async def be(self, begin: Callable[[NodeAgent], None] = lambda _: None) -> None:
        """Announce the node, call `begin`, and send its heartbeats until `leave`.

        Raises the refusal when the hub refuses for good.
        """
        _log.info("node announcing", **self._facts)
        async with self._agent:
            if not self._left:
                _log.info("node announced", **self._facts)
                begin(self._agent)
            await self._agent.stopped()

    def leave(self, why: str) -> None:
        """Make `be` leave the hub and return; log the reason `why`."""
        _log.info("node leaving", node=self._agent.node_id, why=why)
        self._left = True
        self._agent.stop()


def _log_drain(on: bool) -> None:
    _log.info("node draining" if on else "node lending again", why="an operator said so")
