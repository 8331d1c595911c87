"""`hub mcp`: a server of the Model Context Protocol on stdin and stdout, by which an agent borrows slots."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from typer import Option

from hub.cli import output
from hub.cli.child import Signals
from hub.cli.command import command
from hub.cli.connection import Address, HubApi, over_http
from hub.cli.held_slots import HeldSlots
from hub.cli.inputs import seconds
from hub.cli.options import Input
from hub.client import HubClient
from hub.client.backlog import EXIT_S, drop_everything
from hub.errors import HubError


@command("runner")
def mcp(
    at: Address,
    max_slots: int = Option(2, "--max-slots", min=1, max=100, help="The most slots that the agent holds at a time."),
    ttl: float = Input("SECONDS", seconds(least=0.1)).option(
        "The length of a lease, which is renewed: after a kill -9 a slot is free again so soon.", default=60.0
    ),
) -> Coroutine[Any, Any, int]:
    """Serve an agent on stdin and stdout by the Model Context Protocol: it lists pools, and borrows and returns slots.

    A client of that protocol, such as a coding agent, starts this command. The end of stdin, SIGTERM and Ctrl-C return
    all slots. Logs go to stderr. Needs the extra mcp of the package.
    """
    if find_spec("mcp") is None:
        raise HubError("hub mcp needs the package of the protocol; install it with: pip install 'capacity-hub[mcp]'")
    return _serve(at, max_slots, ttl)


async def _serve(at: Address, most: int, ttl_s: float) -> int:
    from hub.cli.mcp_tools import server_of  # imports the SDK of the protocol, which takes a second

    signalled = asyncio.Event()
    with Signals(lambda _: signalled.set()):
        async with over_http(at) as transport, HubClient(at.url, at.credential) as client:
            held = HeldSlots(client, most)
            serving = asyncio.create_task(server_of(HubApi(at, transport), held, ttl_s).run_stdio_async())
            signal = asyncio.create_task(signalled.wait())
            await asyncio.wait([serving, signal], return_when=asyncio.FIRST_COMPLETED)
            signal.cancel()
            await held.close()
        await asyncio.to_thread(drop_everything, EXIT_S)
    if not serving.done():
        _leave()
    if (error := serving.exception()) is not None:
        output.note(f"the agent is gone: {_cause(error)}.")
        return 1
    return 0


def _leave() -> None:
    """End the process at once: after a signal a thread still reads stdin, and nothing but its end would stop that."""
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(0)


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
