"""What a command says beside its result, on stderr: each thing once, and details only to those who ask for them."""

from __future__ import annotations

from collections.abc import Sequence

from hub.cli import output

VERBOSE = "--verbose"

_said: set[str] = set()
_asked_for: set[str] = set()


def begin(words: Sequence[str]) -> list[str]:
    """Begin a command; the words of its line without `--verbose`, which may stand anywhere before two dashes."""
    end = words.index("--") if "--" in words else len(words)
    _said.clear()
    _asked_for.clear()
    _asked_for.update(word for word in words[:end] if word == VERBOSE)
    return [*(word for word in words[:end] if word != VERBOSE), *words[end:]]


def once(sentence: str) -> None:
    """Say it, unless this command has said it already."""
    if sentence not in _said:
        _said.add(sentence)
        output.note(sentence)


def detail(sentence: str) -> None:
    """Say it once, where `--verbose` asks for it."""
    if VERBOSE in _asked_for:
        once(sentence)
