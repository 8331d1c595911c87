"""`python -m hub.client`: announces this machine as `hub agent` does, where nothing but httpx is installed."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import socket
import sys

from hub.client import AgentOptions, NodeAgent
from hub.client.node import NODE_TAKEN
from hub.client.plain import plain_logs
from hub.client.signals import ending
from hub.errors import HubError, NodeTaken, Superseded

log = logging.getLogger("hub.client")


def pool(text: str) -> tuple[str, int]:
    """Return label and number of `LABEL=N`; raises ArgumentTypeError unless N is from 1 to 100000."""
    label, _, count = text.rpartition("=")
    if not label or not (count.isascii() and count.isdigit() and 1 <= int(count) <= 100_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not LABEL=N, such as gpu:a100=2, with N from 1 to 100000")
    return label, int(count)


def pair(text: str) -> tuple[str, str]:
    """Return key and value of `KEY=VALUE`; raises ArgumentTypeError for other text."""
    key, equals, value = text.partition("=")
    if not (equals and key):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as region=eu")
    return key, value


def parse(words: list[str] | None = None) -> tuple[str, AgentOptions]:
    """Return the id of the node and its options from the command line. Exits with 2 for a line that has a mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m hub.client",
        description="Announce this machine and what it lends, and heartbeat for it until SIGTERM or Ctrl-C.",
        epilog="The environment is that of `hub agent`: HUB_URL, HUB_NODE_SECRET, HUB_JOIN_TOKEN, HUB_NODE_TOKEN_FILE.",
    )
    name = os.environ.get("HUB_NODE_ID") or socket.gethostname()
    parser.add_argument("--node", default=name, help="its id; else HUB_NODE_ID, else the host name")
    parser.add_argument(
        "--slots", type=pool, action="append", default=[], metavar="LABEL=N", help="lend N slots of LABEL"
    )
    parser.add_argument("--label", type=pair, action="append", default=[], metavar="KEY=VALUE", help="a fact about it")
    parser.add_argument(
        "--base-url", default="", metavar="URL", help="the URL of the machine itself, apart from its slots"
    )
    parser.add_argument(
        "--policy",
        choices=("reuse", "recycle"),
        default="reuse",
        help="lend a returned slot again as it is, or have it recycled",
    )
    parser.add_argument("--url", default="", help="where the hub is; else HUB_URL")
    asked = parser.parse_args(words)
    for option, pairs in (("--slots", asked.slots), ("--label", asked.label)):
        if len({key for key, _ in pairs}) < len(pairs):
            parser.error(f"{option} names something twice")
    pools = dict(asked.slots)
    return asked.node, AgentOptions(
        pools=pools,
        labels=dict(asked.label),
        apps=list(pools),
        base_url=asked.base_url,
        policy=asked.policy,
        url=asked.url,
        pod=True,
    )


async def announce(node: str, options: AgentOptions) -> None:
    """Keep the node announced until a signal, then leave. Raises the refusal of the hub."""
    agent = NodeAgent(node, **options)
    loop = asyncio.get_running_loop()
    for number in ending():
        loop.add_signal_handler(number, agent.stop)
    async with agent:
        log.info("node %s is announced with %d slots", node, len(agent.slots))
        await agent.stopped()
    log.info("node %s has left", node)


def main() -> int:
    """Announce the node of the command line until a signal; return the exit code, 1 after a refusal of the hub.

    It is 76 when another machine or process is the node.
    """
    plain_logs("%(asctime)s %(levelname)s %(message)s", logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    node, options = parse()
    try:
        asyncio.run(announce(node, options))
    except (NodeTaken, Superseded) as error:
        log.error("%s", error)
        return NODE_TAKEN
    except HubError as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
