"""Forks: connections, locks and threads stay the parent's, and its child begins anew with its own.

A library that forks (gunicorn with preload, Celery, multiprocessing) copies every client of its parent into the child.
Two processes that read one connection get each other's answers.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol


class Anew(Protocol):
    """An object that a child must not use as its parent left it."""

    def begin_anew(self) -> None:
        """Take new connections, locks and threads; called in the child, before anything else runs there."""


_all: weakref.WeakSet[Any] = weakref.WeakSet()
_inherited: list[Any] = []


def note(thing: Anew) -> None:
    """Have `thing.begin_anew` called in every child that is forked from now on."""
    _all.add(thing)


def leave_to_parent(connections: object) -> None:
    """Keep connections of the parent as they are: to close one, or to let it be collected, would write to it."""
    _inherited.append(connections)


def _in_child() -> None:
    for thing in list(_all):
        thing.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
