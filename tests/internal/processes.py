"""`hub internal-worker` in a process of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.world import LoggedProcess, wait_until

TOP = Path(__file__).parent.parent.parent


class WorkerProcess(LoggedProcess):
    """An executor of `@internal` jobs."""

    def __init__(self, options: Iterable[str], environment: dict[str, str]) -> None:
        super().__init__(["internal-worker", *options], environment, cwd=TOP)

    def wait_until_started(self) -> None:
        """Wait until it takes messages; fails with its log when it ends instead."""
        wait_until(self._started, 90, lambda: f"the worker did not come up:\n{self.log()}")

    def _started(self) -> bool:
        assert self.process.poll() is None, f"the worker ended with {self.process.returncode}:\n{self.log()}"
        return "internal worker started" in self.log()
