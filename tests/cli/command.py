"""Running the real `hub` command as a process of its own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Any

import httpx

from tests.contract.names import old_names
from tests.forks import begin
from tests.world import PATIENCE_S, HubProcess, clean_environment, wait_until


class Command:
    """`hub` with an environment of its own; `hub` is the one it talks to, `home` its data directory."""

    def __init__(self, hub: HubProcess | None, home: Path) -> None:
        self.home = home
        self.environment = {**clean_environment(), "DISABLE_DOTENV": "1", "HUB_DATA_DIR": str(home / "data")}
        if hub is not None:
            self.environment |= {
                "HUB_URL": hub.url,
                "HUB_RUNNER_SECRET": hub.runner_secret,
                "HUB_NODE_SECRET": hub.node_secret,
                "HUB_ADMIN_SECRET": hub.admin_secret,
            }
        self.started: list[Running] = []

    def __call__(
        self, *words: str, seconds: float = 60, cwd: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        chosen = {**self.environment, **environment}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            running = begin(words, chosen, out, err, cwd)
            try:
                code = running.wait(seconds)
            finally:
                running.kill()
                running.wait()
            return subprocess.CompletedProcess(["hub", *words], code, _text(out), _text(err))

    def kept(self, secret: str) -> str:
        """The secret as a command line may have it, in a file."""
        file = self.home / "secret"
        file.write_text(f"{secret}\n")
        return f"@{file}"

    def json(self, *words: str) -> Any:
        """Return what a command prints with `--json`, which has neutral names only."""
        done = self(*words, "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert old_names(found) == []
        return found

    def ask(self, path: str) -> Any:
        """Return what the hub itself shows: quicker than the command, and independent of it."""
        headers = {"x-hub-secret": self.environment["HUB_RUNNER_SECRET"]}
        answer = httpx.get(self.environment["HUB_URL"] + path, headers=headers, timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def start(self, *words: str, before: str = "", **environment: str) -> Running:
        """Start it and go on; `before` is Python that runs in it before it begins."""
        path = self.home / f"command-{len(self.started)}"
        running = Running(words, {**self.environment, **environment}, path, before)
        self.started.append(running)
        return running

    def close(self) -> None:
        """End what a test has left running."""
        for running in self.started:
            running.kill()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


class Running:
    """A `hub` command that is running; its output goes to files, so that it never waits for us to read."""

    def __init__(self, words: tuple[str, ...], environment: dict[str, str], path: Path, before: str) -> None:
        self._paths = path.with_suffix(".out"), path.with_suffix(".err")
        with self._paths[0].open("wb") as out, self._paths[1].open("wb") as err:
            self.process = begin(words, environment, out, err, before=before, alone=True)

    @property
    def out(self) -> str:
        return self._paths[0].read_text(errors="replace")  # it may be just writing

    @property
    def err(self) -> str:
        return self._paths[1].read_text(errors="replace")

    def until_out(self, text: str, seconds: float = 60) -> None:
        """Wait until it has printed this on stdout."""
        wait_until(lambda: text in self.out, seconds, lambda: f"never printed {text!r}: {self.out}\n{self.err}")

    def until_err(self, text: str, seconds: float = 60) -> None:
        """Wait until it has printed this on stderr."""
        wait_until(lambda: text in self.err, seconds, lambda: f"never printed {text!r}: {self.out}\n{self.err}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = 60) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(seconds)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


def alive(pid: int) -> bool:
    """Whether a process runs (one that has ended and waits to be reaped does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter: it ended while it was read
        return False


def register(hub: HubProcess, node: str, **body: Any) -> None:
    """Announce a node that never beats; its slots are lent again as they are."""
    answer = httpx.post(
        f"{hub.url}/node/register",
        json={"nodeId": node, "policy": "reuse", **body},
        headers={"x-hub-secret": hub.node_secret},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 200, answer.text


def leave(hub: HubProcess, node: str) -> None:
    """Take a node away, with everything it lent."""
    answer = httpx.delete(f"{hub.url}/node/{node}", headers={"x-hub-secret": hub.node_secret}, timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
