"""`python -m tests.dist FOLDER`: install the wheel there into a clean environment, and see its `hub demo` lend."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import venv
from pathlib import Path

from tests.world import free_port, wait_until

START_S = 90.0  # three agents start beside the hub on a machine that has just installed it


def main(folder: Path) -> None:
    """Print what was lent, or fail with what the demo said."""
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place) / "env"
        venv.create(environment, with_pip=True)
        # Packages of their own, away from the checkout: what the wheel lacks is missed here.
        python = str(environment / "bin/python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel.resolve())], check=True, cwd=place)
        lent = _lend(environment / "bin/hub", Path(place))
        print(f"{wheel.name} lends {lent} from a clean environment; {sdist.name} is beside it")


def _lend(hub: Path, place: Path) -> str:
    port = free_port()
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith(("HUB_", "PYTHON", "VIRTUAL_ENV"))
    }
    with (place / "demo.log").open("w+") as log:
        demo = subprocess.Popen(
            [hub, "demo", "--port", str(port)], cwd=place, env=plain, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            wait_until(lambda: _answers(port) or demo.poll() is not None, START_S, lambda: _said(place))
            wait_until(lambda: _borrowed(port) is not None or demo.poll() is not None, START_S, lambda: _said(place))
            slot = _borrowed(port)
            assert slot is not None, _said(place)
            demo.send_signal(signal.SIGINT)
            assert demo.wait(30) in (0, 130, -signal.SIGINT), _said(place)
        finally:
            if demo.poll() is None:
                demo.kill()
    return slot


def _said(place: Path) -> str:
    return f"the demo says:\n{(place / 'demo.log').read_text()}"


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def _borrowed(port: int) -> str | None:
    """Return the id of a slot that was lent, None while there is none."""
    call = urllib.request.Request(
        f"http://127.0.0.1:{port}/session/borrow",
        json.dumps({"label": "gpu:a100"}).encode(),
        {"content-type": "application/json", "accept": "application/vnd.capacity-hub+json"},
    )
    try:
        with urllib.request.urlopen(call, timeout=5) as answer:
            return str(json.load(answer)["slotId"])
    except OSError:
        return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
