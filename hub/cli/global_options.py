"""The options that may stand behind any command: `--realm`, `--utc`, `--wide` and `--verbose`."""

from __future__ import annotations

from collections.abc import Sequence

ALL = "*"  # realms
VERBOSE, UTC, WIDE, JSON, REALM = "--verbose", "--utc", "--wide", "--json", "--realm"
_ANYWHERE = (VERBOSE, UTC, WIDE)

_given: set[str] = set()
_realms: list[str] = []


def begin(words: Sequence[str]) -> list[str]:
    """Store the global options of a command line, and return the line without them. Nothing behind `--` is read."""
    end = words.index("--") if "--" in words else len(words)
    words, rest = list(words[:end]), list(words[end:])
    _given.clear()
    _realms.clear()
    if next((word for word in words if not word.startswith("-")), "") != "serve":  # its `--realm` is its own
        words = _without_realm(words)
    _given.update(word for word in words if word in (*_ANYWHERE, JSON))
    return [*(word for word in words if word not in _ANYWHERE), *rest]


def _without_realm(words: list[str]) -> list[str]:
    left, taken = [], iter(words)
    for word in taken:
        if word == REALM and (name := next(taken, None)) is not None:
            _realms.append(name)
        elif word.startswith(f"{REALM}="):
            _realms.append(word.partition("=")[2])
        else:
            left.append(word)
    return left


def realm() -> str | None:
    """Return the realm that the command line names, the last one if it names several; None without one."""
    return _realms[-1] if _realms else None


def is_given(option: str) -> bool:
    """Return whether the command line has an option, such as `--utc`."""
    return option in _given
