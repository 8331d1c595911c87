"""HTTP as the hub speaks it, where there are realms: heartbeats take the short way into the realm that they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hub.api.realms.subjects import name_in, without_realm
from hub.api.serving.upgrades import UpgradingProtocol
from hub.observability.realms import within

if TYPE_CHECKING:
    from hub.api.dispatch.realms import Realms


class RealmProtocol(UpgradingProtocol):
    """Looks which realm a request names before it looks what the request is."""

    realms: Realms | None = None  # of this process, once it has started

    def _path(self) -> bytes:
        return without_realm(super()._path())

    def on_headers_complete(self) -> None:
        if self._names and self.realms is not None:
            self.serving = self.realms.anybody  # which names in certificates somebody has
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        name_in(cycle.scope)
        super()._start_asgi_task(cycle, app)

    def _take_beat(self, cycle: Any, app: Any) -> None:
        part = self.realms.for_beat(cycle.scope, bytes(cycle.body)) if self.realms else None
        any_other, self.serving = self.serving, part.serving if part else None
        try:
            with within(part.name if part else ""):
                super()._take_beat(cycle, app)
        finally:
            self.serving = any_other
