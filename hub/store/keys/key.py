"""What is said of a key: its pattern, type, content, lifetime, and after how many seconds it ends by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Protocol, overload

Type = Literal["string", "list", "set", "zset", "hash", "stream", "channel"]


class Key:
    """One key, or many of one pattern: `{node}` in it stands for an id.

    `seconds` is how long it lives at most, for keys that always end by themselves; 0 is one node timeout. `by` and
    `until` say who writes and who deletes a key of the wire.
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
        """Its name behind a prefix."""
        raise NotImplementedError

    def has(self, bare: str) -> bool:
        """Return whether a name without its prefix is of this pattern."""
        return bare == self.pattern


class Prefixed(Protocol):
    """What has keys as attributes: `hub.store.keys.Keys`."""

    def before(self, key: Key) -> str:
        """Return what stands before the pattern of a key."""


class One(Key):
    """A key there is one of in a store: `keys.nodes` is its name."""

    @overload
    def __get__(self, instance: None, of: type[Any]) -> One: ...
    @overload
    def __get__(self, instance: Prefixed, of: type[Any]) -> str: ...
    def __get__(self, instance: Prefixed | None, of: type[Any]) -> One | str:
        return self if instance is None else self.full(instance.before(self))

    def full(self, before: str) -> str:
        return before + self.pattern


class Each(Key):
    """A key there is one of for each id: `keys.session("s1")` is a name."""

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
    """Keys that one room of the code owns: that room alone writes them."""

    title: str
    owner: str
