"""What stands between clients and servers: slow, and now and then an answer is lost, or a server cannot be reached."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress


class Wires:
    """A port for each of these, served by a thread of its own. How bad they are is set from outside."""

    def __init__(self, servers: list[int], seed: int = 0) -> None:
        self._chance = random.Random(seed)
        self._behind = servers
        self.lossy = 0.0  # the share of answers that are lost with their connection
        self.slow_s = 0.0  # how long a piece may take
        self.lost = 0
        self.cut: set[int] = set()  # ports behind which nothing gets through; what is under way arrives afterwards
        self.ports: list[int] = []
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()

    async def _start(self) -> None:
        self._servers = []
        for port in self._behind:
            server = await asyncio.start_server(lambda *ends, port=port: self._take(port, *ends), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports.append(server.sockets[0].getsockname()[1])

    async def _take(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            await self._whole(port)
            there, back = await asyncio.open_connection("127.0.0.1", port)
            ends.append(back)
            ways = self._pump(port, reader, back, answers=False), self._pump(port, there, writer, answers=True)
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:  # the server does not listen: the caller is disconnected
            return
        finally:
            for end in ends:  # also when it is stopped in the middle
                end.transport.abort()

    async def _whole(self, port: int) -> None:
        while port in self.cut:  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # an event could not be set by the thread that heals it

    async def _pump(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with suppress(ConnectionError):
            while some := await reader.read(65536):
                await self._whole(port)
                if self.slow_s:
                    await asyncio.sleep(self._chance.uniform(0, self.slow_s))
                if answers and self._chance.random() < self.lossy:
                    self.lost += 1
                    break
                writer.write(some)
                await writer.drain()
        writer.transport.abort()

    def stop(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()
