"""`hub demo`: runs a hub with a store of its own and three agents, to try it out; nothing of it stays."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shlex
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from typer import Option

from hub.cli import output, tables
from hub.cli.child import interruptible
from hub.cli.connection import plain_logs
from hub.cli.environment import environment
from hub.client import HubClient
from hub.client.signals import named
from hub.errors import HubError, StartRefused, Unavailable
from hub.processes import die_with
from hub.settings import load_settings

# Short, so that a newcomer soon sees a node expire.
TIMEOUT_S = 10
SWEEP_S = 2
START_BOUND_S = 30.0
STOP_BOUND_S = 10.0

# Node -> label and number of its slots. The driver `command` without commands lends names of things.
AGENTS = {
    "demo-browsers": {"browser:chromium": 2, "browser:firefox": 1},
    "demo-gpus": {"gpu:a100:eu": 2, "gpu:t4:eu": 1},
    "demo-licences": {"licence:catia": 1},
}
# Label -> the attributes of its slots that the driver `command` lends, as a fleet file says them.
ATTRIBUTES = {
    "browser:chromium": '{ version = "130.0", major = 130 }',
    "browser:firefox": '{ version = "132.0", major = 132 }',
    "gpu:a100:eu": '{ vram = 40, model = "A100", features = ["nvlink", "mig"] }',
    "gpu:t4:eu": '{ vram = 16, model = "T4" }',
}
BROWSERS = "browser:chromium"
FLEET = "fleet.toml"
_WORTH_SHOWING = re.compile(
    r"^\S+ +(?:(?:WARNING|ERROR|CRITICAL)\b.*|\w+ +(?:node|lease) (?:sweep|expired|refreshed).*)$"
)


def demo(
    port: int | None = Option(None, min=0, max=65_535, help="The port. Default: HUB_PORT, then 8080, then a free one."),
) -> int:
    """Try the hub with a Redis of its own and three agents; nothing of it stays."""
    plain_logs()
    if port is None:
        port = load_settings({"HUB_PORT": environment().get("HUB_PORT", "")}).port
    return asyncio.run(_demo(port))


async def _demo(port: int) -> int:
    """Run the demo until Ctrl-C and return the exit code."""
    with interruptible():
        async with AsyncExitStack() as stack:
            await _run(stack, port)
    output.note("the demo has ended, and nothing of it is left.")
    return 0


async def _run(stack: AsyncExitStack, wanted: int) -> None:
    from hub.fleet.chromium import NAMES  # which no other command needs

    port = _free_port(wanted)
    url = f"http://127.0.0.1:{port}"
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hub-demo-", ignore_cleanup_errors=True)))
    environment = _environment(url, port, folder)
    hub = await stack.enter_async_context(_running(["serve"], environment, piped=True))
    assert hub.stderr is not None
    log = _Log(hub.stderr)
    reader = asyncio.create_task(log.read())
    stack.callback(reader.cancel)

    async def answers(client: HubClient) -> bool:
        if hub.returncode is not None:
            await asyncio.sleep(0.1)  # the end of its log may still be in the pipe
            raise StartRefused(f"The hub did not start. {log.last}")
        return bool(await client.pools(limit=1))

    async def has_agents(client: HubClient) -> bool:
        return bool((await client.nodes(limit=1))["total"] >= len(AGENTS))

    async def has_browsers(client: HubClient) -> bool:
        return any(pool["label"] == BROWSERS and pool["available"] for pool in (await client.pools())["pools"])

    await _until(answers, url, lambda: f"The hub did not answer within {START_BOUND_S:g} s. {log.last}")
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    agents = {}
    for node, file in _write_fleets(folder, browser).items():
        words = ["agent", "--node", node, "--fleet", str(file)]
        agents[node] = await stack.enter_async_context(_running(words, environment, piped=False))
    await _until(has_agents, url, lambda: f"The agents did not announce themselves within {START_BOUND_S:g} s.")
    try:
        await _until(has_browsers, url, lambda: f"{browser} does not answer; `hub why {BROWSERS}` has the reason.")
    except StartRefused as late:
        output.note(str(late))
    _explain(url, port, hub.pid, {node: agent.pid for node, agent in agents.items()}, folder / FLEET, browser)
    log.show()
    for node, agent in agents.items():
        stack.callback(asyncio.create_task(_tell_end(node, agent)).cancel)
    await hub.wait()
    raise HubError(f"The hub ended with status {hub.returncode}. {log.last}")


def _write_fleets(folder: Path, browser: str | None) -> dict[str, Path]:
    """Write the fleet file of each node, and all of them as one; return node -> file."""
    files, texts = {}, [f"# What the demo lends, for one machine: hub agent --fleet {FLEET}\n"]
    for node, pools in AGENTS.items():
        files[node] = folder / f"{node}.toml"
        entries = [_entry(label, count, browser) for label, count in pools.items()]
        files[node].write_text("\n".join(entries))
        texts += entries
    (folder / FLEET).write_text("\n".join(texts))
    return files


def _entry(label: str, count: int, browser: str | None) -> str:
    """Return the entry of a pool: of real browsers where there is one, else of names of things."""
    real = bool(browser) and label == BROWSERS
    about = f"attributes = {ATTRIBUTES[label]}\n" if label in ATTRIBUTES and not real else ""
    return f'[[pools]]\nlabel = "{label}"\ndriver = "{"chromium" if real else "command"}"\ncount = {count}\n{about}'


def _free_port(wanted: int) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            probe.bind(("127.0.0.1", 0))
            free = int(probe.getsockname()[1])
            output.note(f"port {wanted} is taken, so the demo listens on {free}.")
            return free
        return int(probe.getsockname()[1])


def _environment(url: str, port: int, folder: Path) -> dict[str, str]:
    """Return the environment for the processes of the demo, without the settings of the user's own hub."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HUB_", "REDIS_", "LOG_LEVEL", "ASPNETCORE_"))
    }
    return kept | {
        "DISABLE_DOTENV": "1",
        "HUB_URL": url,
        "HUB_PORT": str(port),
        "HUB_DATA_DIR": str(folder),
        "HUB_SWEEPER_EXPIRE": "true",
        "HUB_SWEEP_LOG": "changes",
        "HUB_ALLOWED_CATEGORIES": "*",
        "HUB_NODE_TIMEOUT": str(TIMEOUT_S),
        "HUB_NODE_SWEEP_INTERVAL_SECONDS": str(SWEEP_S),
        "HUB_NODE_SWEEP_INTERVAL_MIN_SECONDS": "1",
        "HUB_BORROW_TTL_SWEEP_SECONDS": str(SWEEP_S),
        "HUB_BORROW_TTL_SWEEP_MIN_SECONDS": "1",
        "HUB_BORROW_TTL_MIN_SECONDS": "1",
        "HUB_SWEEPER_RECONNECT_GRACE_SECONDS": "5",
    }


@asynccontextmanager
async def _running(
    words: list[str], environment: dict[str, str], *, piped: bool
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a `hub` command as a process until the block ends, in a session of its own, which Ctrl-C does not reach."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hub.cli", *words,
        env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE if piped else asyncio.subprocess.DEVNULL, start_new_session=True,
        preexec_fn=die_with(os.getpid(), signal.SIGTERM),
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_BOUND_S)
        except TimeoutError:
            process.kill()
            await process.wait()


class _Log:
    """The log of the hub: it is read to its end, and warnings and sweeps are shown."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._shown = False
        self._kept: list[str] = []
        self.last = ""

    async def read(self) -> None:
        while line := await self._stream.readline():
            text = output.one_line(line.decode("utf-8", "replace").rstrip())
            self.last = text.removeprefix("hub: ") or self.last
            if not _WORTH_SHOWING.match(text):
                continue
            if self._shown:
                output.tell(text)
            else:
                self._kept.append(text)

    def show(self) -> None:
        """Print the lines kept so far, and from now on each that follows."""
        self._shown = True
        for text in self._kept:
            output.tell(text)


async def _until(ask: Callable[[HubClient], Awaitable[bool]], url: str, refusal: Callable[[], str]) -> None:
    """Wait until the hub at `url` answers `ask` with True; raises `StartRefused` when that takes too long."""
    try:
        async with asyncio.timeout(START_BOUND_S), HubClient(url, "", timeout=0.0) as client:
            while True:
                with suppress(Unavailable):
                    if await ask(client):
                        return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise StartRefused(refusal()) from None


async def _tell_end(node: str, agent: asyncio.subprocess.Process) -> None:
    status = await agent.wait()
    how = f"was ended by {named(-status)}" if status < 0 else f"ended with status {status}"
    tail = f"; the hub notices within {TIMEOUT_S + SWEEP_S} s" if status == -signal.SIGKILL else ""
    output.note(f"{node} {how}{tail}.")


def _explain(url: str, port: int, hub_pid: int, agents: dict[str, int], fleet: Path, browser: str | None) -> None:
    command = _hub_command()
    at = "" if port == 8080 and not os.environ.get("HUB_URL") else f" --url {url}"
    victim = agents["demo-gpus"]
    inner = 'echo "I hold $HUB_SLOT_ID, token $HUB_LEASE_TOKEN"'
    lines = (
        f"curl -s {url}/pools/gpu:a100:eu; echo",
        f"{command} nodes{at}",
        f"{command} borrow gpu --where 'vram >= 40'{at} -- sh -c {shlex.quote(inner)}",
        f"{command} borrow browser:chromium{at} -- sleep 15 & sleep 1; {command} leases{at}",
        f"kill -9 {victim}; sleep {TIMEOUT_S + SWEEP_S + 2}; {command} nodes{at}",
    )
    output.put(f"A hub runs at {url} (pid {hub_pid}), with a throw-away Redis and three agents:\n")
    rows = [
        (node, pid, ", ".join(f"{label}={count}" for label, count in AGENTS[node].items()))
        for node, pid in agents.items()
    ]
    tables.put_table(("AGENT", "PID", "LENDS"), rows, numbers=("PID",))
    real = f"lends a real browser, {browser}" if browser else "lends a name, for there is no Chromium here"
    output.put(f"\n{BROWSERS} {real}; the other slots are names of things.")
    output.put(f"A fleet file that lends all of it, to copy: {fleet}\n")
    output.put("Try, in another terminal:\n")
    for line in lines:
        output.put(f"  {line}")
    output.put(
        f"\nThe last one kills an agent and waits for it to expire ({TIMEOUT_S} s without a beat).\n"
        f"Open {url}/ to watch it in the console; the API is at {url}/docs.\n"
        "Warnings and sweeps of the hub follow; Ctrl-C ends it all.\n"
    )


def _hub_command() -> str:
    """Return the command by which a shell in the current folder calls the `hub` of this installation."""
    ours = Path(sys.executable).parent / "hub"
    on_path = shutil.which("hub")
    if on_path is not None and ours.exists() and os.path.samefile(on_path, ours):
        return "hub"
    if not ours.exists():
        return f"{shlex.quote(sys.executable)} -m hub.cli"
    with suppress(ValueError):
        return shlex.quote(str(ours.relative_to(Path.cwd())))
    return shlex.quote(str(ours))
