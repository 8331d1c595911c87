"""A Socket.IO client that remembers what it was told."""

from __future__ import annotations

from typing import Any

from tests.contract.speech import check_acknowledged, check_heard
from tests.joblib.people import Person, empty, fresh, request_hash
from tests.socket_client import SocketClient
from tests.world import PATIENCE_S, eventually

Told = tuple[str, dict[str, Any]]


class Listener:
    """Hears one hub; reconnects only when told so."""

    def __init__(self, url: str, token: str | None, person: Person, fence: str) -> None:
        self.told: list[Told] = []
        self._url = url
        self._auth = {"token": token} if token else None
        self._person = person
        self._fence = fence
        self.client = SocketClient(reconnection=False)
        self.client.on("*", self._hear)

    async def _hear(self, event: str, data: dict[str, Any]) -> None:
        check_heard(event, data)
        self.told.append((event, data))

    async def connect(self) -> None:
        """Raises socketio's ConnectionError when refused."""
        await self.client.connect(self._url, auth=self._auth, transports=["websocket"])
        await self.client.call("room_join", {"room_id": "fence"}, timeout=PATIENCE_S)

    async def join(self, *rooms: str) -> None:
        """Join the rooms `room:...`."""
        for room in rooms:
            await self.client.call("room_join", {"room_id": room}, timeout=PATIENCE_S)

    async def say(self, event: str, data: Any) -> None:
        """Send an event and wait until the hub acknowledges that it has handled it."""
        check_acknowledged(event, await self.client.call(event, data, timeout=PATIENCE_S))

    async def offer(self, full: str, worker: str) -> None:
        """Join the room of a job."""
        await self.say("join_job_room", {"job_name": full, "worker_id": worker})

    async def serve(self, full: str, worker: str) -> None:
        """Join the room of a provider."""
        await self.say("join_provider_room", {"provider_name": full, "worker_id": worker})

    async def heard(self) -> list[Told]:
        """Return everything since it was last asked, up to what has happened by now."""
        query = f"mark={fresh('mark')}"
        fence = {"id": self._fence, "room_id": "fence", "full_name": "fence:files:fence"}
        empty(self._person.answer(fence, b"", query))
        mark = request_hash(query)
        await eventually(lambda: any(data.get("request_hash") == mark for _, data in self.told))
        found = [(event, data) for event, data in self.told if data.get("provider_name") != "fence:files:fence"]
        self.told.clear()
        return found

    async def hang_up(self) -> None:
        """Say goodbye; safe when the connection has ended."""
        await self.client.shutdown()
