"""Forked processes: a forked child does not use the connections, locks and threads of its parent, but makes its own.

A library that forks (gunicorn with preload, Celery, multiprocessing) copies every client of its parent into the child.
Two processes that read one connection get each other's answers.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol


class Anew(Protocol):
    """An object that a forked child must reset before use."""

    def begin_anew(self) -> None:
        """Make new connections, locks and threads; called in the forked child before any other code runs there."""


_all: weakref.WeakSet[Any] = weakref.WeakSet()
_inherited: list[Any] = []


def note(thing: Anew) -> None:
    """Register `thing`, so that `thing.begin_anew` is called in every child that is forked from now on."""
    _all.add(thing)


def leave_to_parent(connections: object) -> None:
    """Keep connections of the parent referenced for ever, because closing or collecting them would write to them."""
    _inherited.append(connections)


def _in_child() -> None:
    for thing in list(_all):
        thing.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
