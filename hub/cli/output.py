"""What people and programs see: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any


class ReaderGone(Exception):
    """The reader of our stdout has seen enough. Not an OSError: those are failures of the command itself."""


def put(text: str) -> None:
    """One line of result on stdout, at once: a reader at the other end of a pipe is waiting for it."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise ReaderGone from None


def put_json(document: Any) -> None:
    """The one JSON document of this command."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    put(json.dumps(document, indent=2, ensure_ascii=plain))


def note(sentence: str) -> None:
    """A sentence for the person who called, on stderr."""
    with suppress(BrokenPipeError):
        print(f"hub: {one_line(sentence)}", file=sys.stderr, flush=True)


def put_problem(code: str, detail: str, exit_code: int) -> None:
    """Why a command that was to print JSON did not, as a line of JSON on stderr: stdout has a result or nothing."""
    with suppress(BrokenPipeError):
        print(json.dumps({"code": code, "detail": detail, "exitCode": exit_code}), file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """Foreign text without anything that breaks a line or that a terminal would obey."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def duration(seconds: Any) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`; `-` for what is no number."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return "-"
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = int(seconds)
    for size, name, small_size, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size} {name}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def pairs(facts: Any) -> str:
    """`region=eu os=linux`."""
    return " ".join(f"{key}={value}" for key, value in facts.items()) if isinstance(facts, dict) else ""


def plural(count: Any, noun: str) -> str:
    """`1 slot`, `2 slots`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
