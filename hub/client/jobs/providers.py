"""The providers a worker answers for: what is known of each, and answering a request."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hub.client.jobs.beating import fatal
from hub.client.jobs.calls import upload
from hub.client.jobs.wire import SyncWire
from hub.errors import HubError

if TYPE_CHECKING:
    from hub.client.jobs.extension import Provider

log = logging.getLogger("hub.client")


@dataclass(frozen=True, slots=True)
class Registered:
    """A provider as it was registered."""

    id: str
    kind: type[Provider]
    handler: Any


class Providers(dict[str, Registered]):
    """Full name -> provider."""

    def answer(self, request: Mapping[str, Any], wire: SyncWire, on_end: Callable[[HubError], None]) -> None:
        """Read what is asked for and hand it in. A read that fails is logged: there is no answer that says so."""
        name, request_id = str(request.get("provider_name")), str(request.get("request_id"))
        if (provider := self.get(name)) is None:
            log.warning("asked for %s, which is not provided here", name)
            return
        try:
            content = _read(provider, str(request.get("params")))
        except Exception as error:
            log.error("provider %s could not read request %s", name, request_id, exc_info=error)
            return
        try:
            wire.run(upload(provider.id, request_id, content))
        except HubError as error:
            if fatal(error):
                on_end(error)
            else:
                log.warning("what provider %s has read was not handed in: %s", name, error)


def _read(provider: Registered, params: str) -> bytes:
    read = provider.kind(**json.loads(params)).read(provider.handler)
    if provider.kind.content_type == "application/json":
        return json.dumps(read).encode()
    return bytes(read)
