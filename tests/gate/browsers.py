"""Real browsers with a DevTools port, as slots."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from tests.console.browser import find_chromium
from tests.world import wait_until


class DevTools:
    """A Chromium process with an empty profile. `with DevTools() as browser:` waits until it listens."""

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="hub-gate-")
        command = [
            find_chromium() or "chromium", "--headless=new", "--remote-debugging-port=0", "--disable-dev-shm-usage",
            "--no-first-run", f"--user-data-dir={self._folder}", *(["--no-sandbox"] if os.geteuid() == 0 else []),
            "about:blank",  # Playwright waits for the first page to load, and a new tab may never do so
        ]  # fmt: skip
        home = {**os.environ, "HOME": self._folder, "TMPDIR": self._folder}
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, env=home, stdout=quiet, stderr=quiet, start_new_session=True)
        said = Path(self._folder) / "DevToolsActivePort"
        wait_until(lambda: said.exists() and said.read_text().count("\n"), 60)
        self.address = f"http://127.0.0.1:{int(said.read_text().splitlines()[0])}"
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """SIGKILL, with all of its processes."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
