"""What an application around the published client has: credentials, a socket, and extensions to run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import httpx
import socketio
from zndraw_joblib import Category, Extension, Provider
from zndraw_socketio import SyncClientWrapper, wrap

from tests.world import PATIENCE_S


class Api:
    """The methods that the published client calls on its host; every request goes to the next of the hubs."""

    def __init__(self, http: httpx.Client, hubs: Sequence[str], token: str) -> None:
        self.http = http
        self._next = itertools.cycle(hubs)
        self._token = token

    def get_headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    @property
    def base_url(self) -> str:
        return next(self._next)

    def raise_for_status(self, response: httpx.Response) -> None:
        """The mapping that the client's resilience relies on."""
        known = {404: KeyError, 401: PermissionError, 403: PermissionError, 409: ValueError, 422: ValueError}
        if response.status_code in known:
            raise known[response.status_code](response.text)
        response.raise_for_status()


def connect(url: str, token: str) -> SyncClientWrapper:
    """Return a socket of the published kind, connected; it reconnects by itself, and soon."""
    client = socketio.Client(reconnection_delay=0.1, reconnection_delay_max=0.3, randomization_factor=0)

    def close(reason: str) -> None:
        if reason != client.reason.CLIENT_DISCONNECT:
            client.eio.ws.shutdown()  # python-engineio leaves the socket of a connection that was cut off open

    client.on("disconnect", close)
    client.connect(url, auth={"token": token}, transports=["websocket"], wait_timeout=PATIENCE_S)
    return wrap(client)


class Rotate(Extension):
    """Adds a line to its file: the angle, and what it was registered with."""

    category: ClassVar[Category] = Category.MODIFIER
    angle: float = 0.0
    file: str = ""

    def run(self, vis: Any, **kwargs: Any) -> None:
        with Path(self.file).open("a") as file:
            file.write(f"{self.angle} {kwargs.get('model', '')}\n")


class Fail(Extension):
    """Fails with its text."""

    category: ClassVar[Category] = Category.ANALYSIS
    text: str = "ü: no such atom"

    def run(self, vis: Any, **kwargs: Any) -> None:
        raise RuntimeError(self.text)


class Hold(Extension):
    """Runs until there is a file of this name."""

    category: ClassVar[Category] = Category.SELECTION
    until: str

    def run(self, vis: Any, **kwargs: Any) -> None:
        while not Path(self.until).exists():
            time.sleep(0.02)


class Listing(Provider):
    """Looks a path up in a dictionary."""

    category: ClassVar[str] = "filesystem"
    path: str = "/"

    def read(self, handler: Any) -> Any:
        return {"path": self.path, "names": handler[self.path]}


class Frames(Provider):
    """Gives bytes."""

    category: ClassVar[str] = "frames"
    content_type: ClassVar[str] = "application/octet-stream"
    index: int

    def read(self, handler: Any) -> bytes:
        return bytes(handler[self.index])
