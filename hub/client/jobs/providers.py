"""The providers that a worker answers for, and how it answers a request to one of them."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hub.client.backlog import KEEP_S, ONCE, Backlog, Message
from hub.client.exchange import lasting, passing
from hub.client.jobs.beating import fatal
from hub.client.jobs.calls import TROUBLE_S, drop_provider, upload
from hub.client.jobs.wire import SyncWire
from hub.errors import HubError
from hub.retries import now_s

if TYPE_CHECKING:
    from hub.client.jobs.extension import Provider

log = logging.getLogger("hub.client")

MOST_WAITING = 100  # results in the backlog: each may be some megabytes


@dataclass(frozen=True, slots=True)
class RegisteredProvider:
    """A registered provider: its id at the hub, its class and its handler."""

    id: str
    kind: type[Provider]
    handler: Any


class ServedProviders(dict[str, RegisteredProvider]):
    """The providers by full name. Their results have a backlog of their own, which does not delay reports on tasks."""

    def __init__(self, backlog: Backlog) -> None:
        super().__init__()
        self.backlog = backlog

    def answer(self, request: Mapping[str, Any], wire: SyncWire, on_end: Callable[[HubError], None]) -> None:
        """Read the requested data and upload it. A failed read is only logged: the API has no answer that says so."""
        name, request_id = str(request.get("provider_name")), str(request.get("request_id"))
        if (provider := self.get(name)) is None:
            log.warning("asked for %s, which is not provided here", name)
            return
        try:
            content = _read(provider, str(request.get("params")))
        except Exception as error:
            log.error("provider %s failed on read request %s", name, request_id, exc_info=error)
            return
        try:
            wire.run(upload(provider.id, request_id, content, lasting(TROUBLE_S)))
        except HubError as error:
            if fatal(error):
                on_end(error)
            elif passing(error) and self.backlog.waiting() < MOST_WAITING:
                steps = partial(upload, provider.id, request_id, content, lasting(0.0), ONCE.attempt_s)
                action = f"hand in what provider {name} has read"
                self.backlog.add(Message(action, steps, now_s() + KEEP_S, "who asks for it is told nothing"), error)
            else:
                log.warning("what provider %s has read was not handed in: %s", name, error)

    def drop(self, name: str, provider: RegisteredProvider, wire: SyncWire) -> None:
        """Unregister a provider. Raises the `HubError`; after a passing failure the call goes on in the background."""
        try:
            wire.run(drop_provider(provider.id, lasting(TROUBLE_S)))
        except HubError as error:
            if passing(error):
                steps = partial(drop_provider, provider.id, lasting(0.0), ONCE.attempt_s)
                consequence = "the hub drops it with its worker"
                self.backlog.add(Message(f"unregister provider {name}", steps, math.inf, consequence), error)
            raise


def _read(provider: RegisteredProvider, params: str) -> bytes:
    read = provider.kind(**json.loads(params)).read(provider.handler)
    if provider.kind.content_type == "application/json":
        return json.dumps(read).encode()
    return bytes(read)
