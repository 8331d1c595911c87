"""The output of commands: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from hub.cli import global_options

_noted: set[str] = set()  # the notes that `note_once` has printed


class ReaderGone(Exception):
    """The failure to print to a closed pipe. It is no OSError, for those are reported as failures of the command."""


class Unwritable(Exception):
    """The failure to write a result to stdout, such as a full disk or a closed terminal."""


def begin() -> None:
    """Prepare the standard streams for a command, and forget earlier notes.

    A closed stream is replaced by the null device. Otherwise the first connection of the command would get its file
    descriptor.
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
    """Send the rest of a stream to the null device, so that the flush at exit does not fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def put(text: str) -> None:
    """Print lines of a result on stdout, and flush them, because a reader of a pipe may wait for them.

    Control characters are escaped, so that a terminal obeys nothing of the text.
    """
    put_rendered("\n".join(map(one_line, text.split("\n"))))


def put_line(text: str) -> None:
    """Print a text on stdout as one line."""
    put(one_line(text))


def put_rendered(text: str) -> None:
    """Print a text of this program on stdout unchanged, with its own control characters for the terminal.

    Raises `ReaderGone` or `Unwritable`.
    """
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
    """Return a document as JSON, with each unprintable character escaped."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(document, indent=indent, ensure_ascii=plain)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def note(sentence: str) -> None:
    """Print a sentence for the user on stderr; a failure to print is ignored."""
    tell(f"hub: {one_line(sentence)}")


def note_once(sentence: str) -> None:
    """Print a note, unless this command has printed it already."""
    if sentence not in _noted:
        _noted.add(sentence)
        note(sentence)


def note_if_verbose(sentence: str) -> None:
    """Print a note once, only with `--verbose`."""
    if global_options.is_given(global_options.VERBOSE):
        note_once(sentence)


def put_problem(code: str, detail: str, exit_code: int) -> None:
    """Print the failure of a command with `--json` as a line of JSON on stderr; stdout is only for results."""
    tell(json.dumps({"code": code, "detail": detail, "exitCode": exit_code}))


def tell(line: str) -> None:
    """Print a line on stderr; a failure to print is ignored."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """Return a text with each unprintable character escaped, so that it stays one line and controls no terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def size(count: Any) -> str:
    """Return a number of bytes as `640 bytes`, `12.3 kB`, `4.0 MB` or `1.1 GB`."""
    for bytes_each, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= bytes_each:
            return f"{count / bytes_each:.1f} {unit}"
    return f"{count} bytes"


def duration(seconds: Any) -> str:
    """Return seconds as `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min` or `3 d 4 h`; `-` when they are no number."""
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


def instant(moment: datetime) -> str:
    """Return a time as `2026-11-23T08:40:10.123Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def when(text: Any, now: datetime | None = None) -> str:
    """Return an ISO time as `12 s ago` or `in 3 min`, with `--utc` as `2026-11-23T08:40:10Z`; other text unchanged."""
    shown = str(text or "")
    try:
        at = datetime.fromisoformat(shown)
    except ValueError:
        return shown
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    if global_options.is_given(global_options.UTC):
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def since(ms: Any) -> str:
    """Return a duration in ms as `12 s ago`; `never` when it is no number."""
    return f"{duration(ms / 1000)} ago" if isinstance(ms, int | float) else "never"


def pairs(facts: Any) -> str:
    """Return a mapping as text, such as `region=eu os=linux`."""
    return " ".join(f"{key}={value}" for key, value in facts.items()) if isinstance(facts, dict) else ""


def plural(count: Any, noun: str) -> str:
    """Return a number with its noun, such as `1 slot` or `2 slots`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
