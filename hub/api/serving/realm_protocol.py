"""HTTP of a hub with realms: a heartbeat takes the short way into the realm that it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hub.api.realms.subjects import name_in, without_realm
from hub.api.serving.upgrades import UpgradingProtocol
from hub.observability.realms import within

if TYPE_CHECKING:
    from hub.api.dispatch.realms import Realms


class RealmProtocol(UpgradingProtocol):
    """The protocol of a hub with realms: it finds the realm that a request names before it looks at the path."""

    realms: Realms | None = None  # the realms of this process; None until they have started

    def _path(self) -> bytes:
        return without_realm(super()._path())

    def on_headers_complete(self) -> None:
        if self._names and self.realms is not None:
            self.serving = self.realms.any_serving  # any realm knows the tokens file, which lists names in certificates
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
