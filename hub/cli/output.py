"""The output of commands: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Any, TextIO

from hub.cli import global_options

_noted: set[str] = set()  # what `note_once` has said


class ReaderGone(Exception):
    """A closed pipe behind stdout. It is not an OSError, since those are failures of the command itself."""


class Unwritable(Exception):
    """A result that cannot be written to stdout: a disk that is full, a terminal that is gone."""


def begin() -> None:
    """Prepare the standard streams for a command.

    A closed stream becomes the null device. Otherwise the first connection of the command would get its number.
    """
    _noted.clear()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null == number:
                os.set_inheritable(null, True)
            else:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def discard(stream: TextIO) -> None:
    """Let nothing more of a stream be written, so that the flush at the end does not complain either."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def put(text: str) -> None:
    """Print lines of result on stdout, at once: a reader at the other end of a pipe is waiting for them.

    Nothing of the text is obeyed by a terminal, wherever it comes from.
    """
    put_rendered("\n".join(map(one_line, text.split("\n"))))


def put_rendered(text: str) -> None:
    """Print as `put` does what has commands for the terminal, which are ours."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise Unwritable(f"stdout cannot be written to: {error.strerror}.") from None


def put_json(document: Any) -> None:
    """Print the one JSON document of this command."""
    put(json_text(document, indent=2))


def json_text(document: Any, indent: int | None = None) -> str:
    """Return a document as JSON, with an escape for each character that a terminal obeys or does not show."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(document, indent=indent, ensure_ascii=plain)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def note(sentence: str) -> None:
    """Print a sentence for the user on stderr; it is dropped where it cannot be printed."""
    tell(f"hub: {one_line(sentence)}")


def note_once(sentence: str) -> None:
    """Print a note, unless this command has printed it already."""
    if sentence not in _noted:
        _noted.add(sentence)
        note(sentence)


def note_if_verbose(sentence: str) -> None:
    """Print a note once, where `--verbose` asks for it."""
    if global_options.is_given(global_options.VERBOSE):
        note_once(sentence)


def put_problem(code: str, detail: str, exit_code: int) -> None:
    """Print why a command that was to print JSON did not, as JSON on stderr: stdout has a result or nothing."""
    tell(json.dumps({"code": code, "detail": detail, "exitCode": exit_code}))


def tell(line: str) -> None:
    """Print a line on stderr, if it can be printed at all."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """Return foreign text without anything that breaks a line or that a terminal would obey."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def size(count: Any) -> str:
    """Return a number of bytes as `640 bytes`, `12.3 kB`, `4.0 MB` or `1.1 GB`."""
    for bytes_each, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= bytes_each:
            return f"{count / bytes_each:.1f} {unit}"
    return f"{count} bytes"


def duration(seconds: Any) -> str:
    """Return `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min` or `3 d 4 h`; `-` for what is no number."""
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
    """Return labels as `region=eu os=linux`."""
    return " ".join(f"{key}={value}" for key, value in facts.items()) if isinstance(facts, dict) else ""


def plural(count: Any, noun: str) -> str:
    """Return `1 slot` or `2 slots`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
