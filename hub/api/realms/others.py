"""The realms of this process, as a call in one realm sees the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from starlette.datastructures import State

from hub.api.handling.context import Serving
from hub.settings.realms import Realm


class ServedRealm(Protocol):
    """A realm that this process serves or tries to serve: `hub.api.dispatch.part.Part`."""

    name: str
    error: str  # why the realm's store does not answer; empty when it answers

    @property
    def serving(self) -> Serving | None:
        """Return the `Serving` of the realm's application; None while its store has not been opened."""


class ServedRealms(Protocol):
    """All realms of this process: `hub.api.dispatch.realms.Realms`. Each application has this object in its state as
    `realms`; None at a hub without realms."""

    @property
    def parts(self) -> Mapping[str, ServedRealm]:
        """Return the realms by name; the name of the default realm is empty."""

    def declared(self, name: str) -> Realm | None:
        """Return the realm of this name as the file declares it; None when the file does not have it any more."""

    def of_room(self, room: str, ident: str) -> ServedRealm:
        """Return the realm that the rules give a room, else the realm whose tag is in this id; raises `UnknownRealm`
        when this hub does not serve it."""

    async def look(self) -> None:
        """Ask the stores of all realms, in parallel, whether they answer."""

    async def each(self, act: Callable[[State], Awaitable[None]]) -> None:
        """Call `act` with the application's state of every realm, in parallel, each with a time limit."""
