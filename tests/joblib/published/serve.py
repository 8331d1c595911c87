"""A worker in a process of its own, made with the published client: `serve URL TOKEN ROOM with|without`."""

from __future__ import annotations

import signal
import sys
import threading
import time

import httpx
from zndraw_joblib import JobManager

from tests.joblib.published.host import Api, Hold, Rotate, connect


def main(url: str, token: str, room: str, sockets: str) -> None:
    """Serve until told to end, or killed."""
    socket = connect(url, token) if sockets == "with" else None
    manager = JobManager(
        Api(httpx.Client(trust_env=False), [url], token),
        socket,
        execute=lambda task: task.extension.run(None, **task.run_kwargs),
        heartbeat_interval=0.4,
        polling_interval=0.2,
    )
    manager.register(Rotate, room=room)
    manager.register(Hold, room=room)
    threading.Thread(target=announce, daemon=True).start()
    manager.wait()
    if socket is not None:
        socket.disconnect()


def announce() -> None:
    """Say that it serves, once it would hear SIGTERM."""
    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        time.sleep(0.01)
    print("serving", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
