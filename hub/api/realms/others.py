"""The realms of this process, as a call in one of them sees the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from starlette.datastructures import State

from hub.api.handling.context import Serving
from hub.settings.realms import Realm


class ServedRealm(Protocol):
    """A realm that this process serves, or tries to: `hub.api.dispatch.part.Part`."""

    name: str
    error: str  # why its store does not answer; empty where it does

    @property
    def serving(self) -> Serving | None:
        """Return what the realm is served with; None while its store has not been opened."""


class ServedRealms(Protocol):
    """All of them: `hub.api.dispatch.realms.Realms`, in the state of each application; None of a hub without realms."""

    @property
    def parts(self) -> Mapping[str, ServedRealm]:
        """By name, the default realm's is empty."""

    def said_of(self, name: str) -> Realm | None:
        """Return what the file says of a realm; None for one that is not in it any more."""

    def of_room(self, room: str, ident: str) -> ServedRealm:
        """The realm of a room by the rules, else of an id a hub gave; raises `UnknownRealm` if it is not served."""

    async def look(self) -> None:
        """Ask every store, side by side, whether it is there."""

    async def each(self, act: Callable[[State], Awaitable[None]]) -> None:
        """Do something for every realm that is open, side by side."""
