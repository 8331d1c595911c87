"""`hub internal-worker` in a process of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path

from tests.forks import begin
from tests.world import clean_environment, log_file, wait_until

TOP = Path(__file__).parent.parent.parent


class WorkerProcess:
    """Runs until it is signalled or killed; its log is kept in a file."""

    def __init__(self, options: Iterable[str], environment: dict[str, str]) -> None:
        self._log_path, _ = log_file(self)
        self._log = self._log_path.open("ab")
        chosen = {**clean_environment(), **environment, "DISABLE_DOTENV": "1"}
        self.process = begin(["internal-worker", *options], chosen, self._log, self._log, TOP)

    def wait_until_started(self) -> None:
        """Until it takes messages; fails with its log when it ends instead."""
        wait_until(self._started, 90, lambda: f"the worker did not come up:\n{self.log()}")

    def _started(self) -> bool:
        assert self.process.poll() is None, f"the worker ended with {self.process.returncode}:\n{self.log()}"
        return "internal worker started" in self.log()

    def log(self) -> str:
        """The lines it has logged so far, and not a part of one that is just being written."""
        said = self._log_path.read_bytes()
        return said[: said.rfind(b"\n") + 1].decode()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, as a crash would; safe when it has ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()
