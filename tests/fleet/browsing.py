"""A borrower of browsers that looks for what another has left, over DevTools, and leaves something itself."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

LOOK = "document.cookie + JSON.stringify(localStorage) + history.length + window.name"
LEAVE = "document.cookie = 'seen={0}; max-age=9999'; localStorage.seen = '{0}'; caches.open('{0}').then(() => 'left')"
EMPTY = "{}2"  # about:blank and the page itself


@contextmanager
def a_site() -> Iterator[str]:
    """A web site of its own origin, which counts nothing and remembers nothing."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("cache-control", "max-age=9999")
            self.end_headers()
            self.wfile.write(b"<title>a page</title>")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


class Tab:
    """A page in a borrowed browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._calls = 0
        self._session = ""

    async def call(self, method: str, **given: Any) -> dict[str, Any]:
        """Call a method and return its result."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": given}
        await self._socket.send(json.dumps(message | ({"sessionId": self._session} if self._session else {})))
        while (answer := json.loads(await self._socket.recv())).get("id") != self._calls:
            pass
        assert "result" in answer, answer
        return answer["result"]

    async def open(self, url: str) -> None:
        """Open a page in the browser's own context, as who connects over CDP finds it, and wait until it has loaded."""
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        self._session = (await self.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        await self.call("Page.enable")
        await self.call("Page.navigate", url=url)
        while await self.say("location.href + document.readyState") != f"{url}complete":
            pass

    async def say(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True)
        return found["result"].get("value")


async def visit(endpoint: str, site: str, name: str) -> str:
    """Use a browser as a borrower: return what was found of others in it, "" when it was empty, and leave `name`."""
    async with connect(endpoint, compression=None, proxy=None, max_size=None) as socket:
        tab = Tab(socket)
        pages = [each["url"] for each in (await tab.call("Target.getTargets"))["targetInfos"] if each["type"] == "page"]
        cookies = (await tab.call("Storage.getCookies"))["cookies"]
        await tab.open(site)
        kept = await tab.say(f"caches.keys().then(keys => keys.join() + {LOOK})")
        await tab.say(LEAVE.format(name))
        left = await tab.say(LOOK)
        assert name in left, left
        return "" if (pages, cookies, kept) == (["about:blank"], [], EMPTY) else f"{pages} {cookies} {kept}"
