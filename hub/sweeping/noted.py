"""A pass that found something to do is written into the history, for whoever asks later what the hub did by itself."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from hub.store.store import Store
from hub.sweeping.loop import Pass


def noted(store: Store, name: str, sweep: Callable[[], Awaitable[Pass]]) -> Callable[[], Awaitable[Pass]]:
    """The same pass; an eventful one leaves an event named after it."""
    note = store.script("store/note")

    async def sweep_and_note() -> Pass:
        done = await sweep()
        if done.eventful:
            facts = [text for fact in done.facts().items() for text in fact]
            await note(what=f"sweep.{name}", id=secrets.token_hex(8), rest=facts)
        return done

    return sweep_and_note
