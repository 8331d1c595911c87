"""What a command says beside its result, on stderr: each thing once, details only to those who ask. And what may stand
behind any command."""

from __future__ import annotations

from collections.abc import Sequence

from hub.cli import output

ALL = "*"  # realms
VERBOSE, UTC, WIDE, JSON, REALM = "--verbose", "--utc", "--wide", "--json", "--realm"
_ANYWHERE = (VERBOSE, UTC, WIDE)

_said: set[str] = set()
_asked_for: set[str] = set()
_realms: list[str] = []


def begin(words: Sequence[str]) -> list[str]:
    """Begin a command; the words of its line without the options that may stand anywhere before two dashes."""
    end = words.index("--") if "--" in words else len(words)
    words, rest = list(words[:end]), list(words[end:])
    _said.clear()
    _asked_for.clear()
    _realms.clear()
    if next((word for word in words if not word.startswith("-")), "") != "serve":  # which has one of its own
        words = _without_realm(words)
    _asked_for.update(word for word in words if word in (*_ANYWHERE, JSON))
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
    """The realm that the line of this command names last; None where it names none."""
    return _realms[-1] if _realms else None


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
