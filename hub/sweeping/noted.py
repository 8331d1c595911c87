"""Events for passes that changed anything, so that the history shows what the sweeps did."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from hub.errors import StoreUnavailable
from hub.store.store import Store
from hub.sweeping.loop import Pass

P = TypeVar("P", bound=Pass | None)


def noted(store: Store, name: str, sweep: Callable[[], Awaitable[P]]) -> Callable[[], Awaitable[P]]:
    """Return `sweep` extended so that each eventful pass writes an event `sweep.NAME` into the history."""
    note = store.script("store/note")

    async def sweep_and_note() -> P:
        done = await sweep()
        if done is not None and done.eventful:
            facts = [text for fact in done.facts().items() for text in fact]
            with suppress(StoreUnavailable):  # the pass was made, and its log line says so
                await note(what=f"sweep.{name}", id=secrets.token_hex(8), rest=facts)
        return done

    return sweep_and_note
