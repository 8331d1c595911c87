"""Descriptions of Redis keys: pattern, type, content, lifetime, and after how many seconds a key expires."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Protocol, overload

Type = Literal["string", "list", "set", "zset", "hash", "stream", "channel"]


class Key:
    """The description of one key, or of all keys of one pattern, in which `{node}` or the like stands for an id.

    `seconds` is the longest lifetime of keys that always expire; 0 means one node timeout, None no expiry. `by` and
    `until` say who writes and who deletes a key that other programs use too.
    """

    def __init__(
        self,
        pattern: str,
        type: Type,
        content: str,
        lifetime: str,
        *,
        seconds: int | None = None,
        by: str = "",
        until: str = "",
    ) -> None:
        self.pattern, self.type, self.content, self.lifetime = pattern, type, content, lifetime
        self.seconds, self.by, self.until = seconds, by, until
        self.head, _, rest = pattern.partition("{")
        self.tail = rest.partition("}")[2]

    def full(self, before: str) -> Any:
        """Return the name of the key behind the prefix `before`; for a pattern, a function that makes it from an id."""
        raise NotImplementedError

    def has(self, bare: str) -> bool:
        """Return whether a key name without prefix fits this pattern."""
        return bare == self.pattern


class Prefixed(Protocol):
    """An object with keys as attributes: `hub.store.keys.Keys`."""

    def before(self, key: Key) -> str:
        """Return the text in front of a key's pattern."""


class One(Key):
    """A key that a store has once: `keys.nodes` is its name."""

    @overload
    def __get__(self, instance: None, of: type[Any]) -> One: ...
    @overload
    def __get__(self, instance: Prefixed, of: type[Any]) -> str: ...
    def __get__(self, instance: Prefixed | None, of: type[Any]) -> One | str:
        return self if instance is None else self.full(instance.before(self))

    def full(self, before: str) -> str:
        return before + self.pattern


class Each(Key):
    """A key that a store has once for each id: `keys.session("s1")` returns its name."""

    @overload
    def __get__(self, instance: None, of: type[Any]) -> Each: ...
    @overload
    def __get__(self, instance: Prefixed, of: type[Any]) -> Callable[[str], str]: ...
    def __get__(self, instance: Prefixed | None, of: type[Any]) -> Each | Callable[[str], str]:
        return self if instance is None else self.full(instance.before(self))

    def full(self, before: str) -> Callable[[str], str]:
        return partial(_fill, (before + self.head, self.tail))

    def has(self, bare: str) -> bool:
        return bare.startswith(self.head)


def _fill(parts: tuple[str, str], value: str) -> str:
    return value.join(parts)


class Section:
    """A group of keys. `owner` is the part of the code that writes them, and no other part does."""

    title: str
    owner: str
