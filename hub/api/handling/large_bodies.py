"""Large request bodies under way: their bytes are bounded, for each caller and for all callers together, and one body
is parsed at a time."""

from __future__ import annotations

import asyncio

from hub.api.handling.shares import Shares
from hub.errors import Unavailable
from hub.settings import Settings

LIGHT = 65_536  # bytes: a body up to this size is not counted
WAIT_S = 20.0  # for other bodies to be done with, before a body is refused


class LargeBodies:
    """A gate for large bodies. It lets bodies in, in the order in which they arrive, while the bytes of their caller
    and of all callers together stay below two bounds."""

    def __init__(self, settings: Settings) -> None:
        largest = max(16 * 1024 * 1024, settings.task_payload_max_bytes, settings.provider_result_max_bytes) + LIGHT
        most = max(settings.max_bytes_under_way, largest)
        self._bytes = Shares(most, max(most // 2, largest))
        self._waiting: list[tuple[str, int, asyncio.Future[None]]] = []
        self.turn = asyncio.Lock()  # held by the request whose large body is being parsed

    async def load(self, caller: str, size: int) -> None:
        """Count `size` bytes for a caller as soon as there is room; raises `Unavailable` when there is none for
        `WAIT_S` seconds."""
        if not self._waiting and self._fits(caller, size):
            self._bytes.take(caller, size)
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (caller, size, place)
        self._waiting.append(entry)
        self._let_in()
        try:
            async with asyncio.timeout(WAIT_S):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.unload(caller, size)
            else:
                self._waiting.remove(entry)
                self._let_in()
            if isinstance(error, TimeoutError):
                raise Unavailable("Too many large bodies are under way; send fewer at a time.") from None
            raise

    def unload(self, caller: str, size: int) -> None:
        """Stop counting `size` bytes for a caller, and let in bodies that wait."""
        self._bytes.give_back(caller, size)
        self._let_in()

    def _fits(self, caller: str, size: int) -> bool:
        return not (self._bytes.is_used_up(size) or self._bytes.is_used_up_by(caller, size))

    def _let_in(self) -> None:
        """Let in the bodies that wait, in their order, while there is room. A caller with too many bytes of its own
        holds up no other caller."""
        for entry in list(self._waiting):
            caller, size, place = entry
            if self._bytes.is_used_up(size):
                return
            if self._fits(caller, size) and not place.done():
                self._waiting.remove(entry)
                self._bytes.take(caller, size)
                place.set_result(None)
