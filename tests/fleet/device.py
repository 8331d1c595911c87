"""A device for the driver `command`: `device.py STEP SLOT PORT`. Its server outlives the command and its session.

Each step says that it was reached, in the folder TEST_GATES, and waits while a gate of its name is there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path


def main(step: str, slot: str, port: str) -> None:
    gates = Path(os.environ["TEST_GATES"])
    (gates / f"{step}.reached").touch()
    while (gates / step).exists():
        time.sleep(0.02)
    pid = gates / f"{slot}.pid"
    if step in ("recycle", "stop"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)
    if step in ("start", "recycle"):
        words = [sys.executable, str(Path(__file__).with_name("server.py")), port, slot]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        pid.write_text(str(subprocess.Popen(words, start_new_session=True, **quiet).pid))
    if step != "stop":
        until = time.monotonic() + (20 if step != "check" else 0)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5)
                return
            except OSError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
