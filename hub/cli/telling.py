"""What a command says beside its result, on stderr: each thing once, details only to those who ask. And what may stand
behind any command."""

from __future__ import annotations

from collections.abc import Sequence

from hub.cli import output

VERBOSE, UTC, WIDE, JSON = "--verbose", "--utc", "--wide", "--json"
_ANYWHERE = (VERBOSE, UTC, WIDE)

_said: set[str] = set()
_asked_for: set[str] = set()


def begin(words: Sequence[str]) -> list[str]:
    """Begin a command; the words of its line without the options that may stand anywhere before two dashes."""
    end = words.index("--") if "--" in words else len(words)
    _said.clear()
    _asked_for.clear()
    _asked_for.update(word for word in words[:end] if word in (*_ANYWHERE, JSON))
    return [*(word for word in words[:end] if word not in _ANYWHERE), *words[end:]]


def asked(option: str) -> bool:
    """Whether an option is on the line of this command."""
    return option in _asked_for


def once(sentence: str) -> None:
    """Say it, unless this command has said it already."""
    if sentence not in _said:
        _said.add(sentence)
        output.note(sentence)


def detail(sentence: str) -> None:
    """Say it once, where `--verbose` asks for it."""
    if VERBOSE in _asked_for:
        once(sentence)
