"""The readers of values on a command line; they check a value before anything is sent."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import typer

from hub.capacity.labels import parse_label
from hub.capacity.nodes.models import DRAIN_DEADLINE_MAX_S
from hub.cli import global_options
from hub.errors import InvalidLabel, InvalidRoomId
from hub.jobs.names import check_room, dashed, parse_full_name, to_id

LONGEST_ID = 512  # a longer text was pasted by accident
LONGEST_KEY = 255
STDIN = "-"
YEAR_S = 366 * 86_400
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Usage(Exception):
    """The refusal of a wrong command line; the text is one sentence. `below` shows the place, in lines below it."""

    def __init__(self, sentence: str, below: str = "") -> None:
        super().__init__(sentence)
        self.below = below


class InputEnded(Exception):
    """The end of a command with a sentence on stderr and an exit code of its own."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class PoolOption(NamedTuple):
    """A label and a number of slots, `LABEL=N`."""

    label: str
    slots: int


class Pair(NamedTuple):
    """A label of a machine, `KEY=VALUE`."""

    key: str
    value: str


def read_label(text: str, segments_min: int = 2) -> str:
    """Return a label in its normal form; raises `BadParameter`, as all readers here do."""
    try:
        return parse_label(text, segments_min=segments_min).text
    except InvalidLabel as error:
        why = str(error.detail).partition(": ")[2].rpartition(" (")[0]
        raise typer.BadParameter(f"{shown(text)} is no label: {why}.") from None


def read_stem(text: str) -> str:
    """Return a label under which slots may be asked for: one segment is enough, such as `gpu`."""
    return read_label(text, 1)


def read_pool(text: str) -> PoolOption:
    """Return the label and the number of slots of `LABEL=N`."""
    label, equals, count = text.rpartition("=")
    if not equals:
        raise typer.BadParameter(f"{shown(text)} is not LABEL=N, such as gpu:a100=2.")
    count = count.strip()
    if not (count.isascii() and count.isdigit() and len(count) < 7 and 1 <= int(count) <= 100_000):
        raise typer.BadParameter(f"{shown(text)} does not end in a number of slots from 1 to 100000.")
    return PoolOption(read_label(label), int(count))


def read_pair(text: str) -> Pair:
    """Return the two parts of `KEY=VALUE`; the value may be empty and may contain `=`."""
    key, equals, value = text.partition("=")
    if not (equals and key.strip()):
        raise typer.BadParameter(f"{shown(text)} is not KEY=VALUE, such as region=eu.")
    return Pair(key.strip(), value)


def reader(read: Callable[[Any], str]) -> Callable[[str], str]:
    """Return a reader that refuses what `read` refuses with a `ValueError`, whose text goes on after the value."""

    def parse(text: str) -> str:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(f"{shown(text)} {error}.") from None

    return parse


def read_id(text: str) -> str:
    """Return the id of a node, a slot or a run."""
    trimmed = text.strip()
    if not trimmed or len(trimmed) > LONGEST_ID or not trimmed.isprintable() or trimmed in (".", ".."):
        raise typer.BadParameter(f"{shown(text)} is no id: write 1 to {LONGEST_ID} printable characters.")
    return trimmed


def read_uuid(text: str) -> str:
    """Return the id of a worker or a task, from any spelling of a UUID, in the spelling of the wire."""
    try:
        return dashed(to_id(text.strip()))
    except ValueError:
        raise typer.BadParameter(f"{shown(text)} is no UUID.") from None


def read_room(text: str) -> str:
    """Return the name of a room; a slash is refused, because the name becomes a part of a path."""
    try:
        check_room(text)
    except InvalidRoomId:
        raise typer.BadParameter(f"{shown(text)} is no room: write a name without '@' and ':', or @global.") from None
    if "/" in text or text in (".", "..") or not _is_text(text):
        raise typer.BadParameter(f"{shown(text)} is no room: it cannot be part of a path.")
    return text


def read_full_name(text: str) -> str:
    """Return the full name of a job."""
    parts = parse_full_name(text)
    if parts is None or not _is_text(text):
        raise typer.BadParameter(
            f"{shown(text)} is no job: write ROOM:CATEGORY:NAME, such as @global:modifiers:Rotate."
        )
    read_room(parts[0])
    return text


def read_key(text: str) -> str:
    """Return an Idempotency-Key; only printable ASCII is accepted, because the key is sent in a header."""
    if not text.strip() or len(text) > LONGEST_KEY or not text.isascii() or not text.isprintable():
        raise typer.BadParameter(f"{shown(text)} is no key: write 1 to {LONGEST_KEY} printable ASCII characters.")
    return text


def read_moment(text: str) -> str:
    """Return a time in ISO 8601 unchanged; one without an offset from UTC is refused."""
    try:
        known = datetime.fromisoformat(text.strip()).tzinfo is not None
    except ValueError:
        known = False
    if not known:
        raise typer.BadParameter(f"{shown(text)} is no time with its offset, such as 2030-01-02T03:04:05Z.")
    return text.strip()


def read_payload(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, or on stdin for the text `-`; raises `Usage` when there is none."""
    where = "PAYLOAD" if text != STDIN else "What stands on stdin"
    try:
        if text == STDIN:
            text = sys.stdin.buffer.read().decode()
        payload = json.loads(text, parse_constant=_no_number)
        json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeError:
        raise Usage(f"{where} is not text in UTF-8.") from None
    except (ValueError, RecursionError) as error:
        raise Usage(f"{where} is no JSON: {str(error)[:200]}.") from None
    if not isinstance(payload, dict):
        raise Usage(f"{where} is no JSON object, such as '{{\"frames\": 10}}'.")
    return payload


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _is_text(text: str) -> bool:
    """Return whether a text can be sent as UTF-8, which is not so for an argument of other bytes."""
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False


def read_url(text: str) -> str:
    """Return the URL of a hub, such as http://hub:8080, without a slash at its end; it may have a path."""
    try:
        parts = urlsplit(text.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not text.strip().isprintable() or " " in text.strip():
        raise typer.BadParameter(f"{shown(text)} is no address of a hub, such as http://127.0.0.1:8080.")
    return text.strip().rstrip("/")


def seconds(*, least: float) -> Callable[[str], float]:
    """Return a reader of a number of seconds, from `least` to a year."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= YEAR_S:
            raise typer.BadParameter(f"{shown(text)} is not a number of seconds from {least:g} to {YEAR_S}.")
        return value

    return read


def span(least_s: float, most_s: float, bounds: str) -> Callable[[str], float]:
    """Return a reader of durations such as `90`, `90s`, `10m`, `2h` or `1d`, which returns seconds.

    `bounds` are the words on the bounds for a refusal.
    """

    def read(text: str) -> float:
        match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)", text.strip())
        value = float(match[1]) * _UNITS_S[match[2]] if match else math.nan
        if not least_s <= value <= most_s:
            raise typer.BadParameter(f"{shown(text)} is not a time from {bounds}, such as 90s, 10m or 2h.")
        return value

    return read


read_deadline = span(1, DRAIN_DEADLINE_MAX_S, "1s to 7d")


def check_command(command: list[str]) -> None:
    """Raise `Usage` for a command that could not be started, before a slot is borrowed for it."""
    if not command[0] or shutil.which(command[0]) is None:
        where = "is no program" if os.sep in command[0] else "is not on the PATH"
        raise Usage(f"The command {shown(command[0])} {where}.")


def each_once(pairs: Iterable[tuple[str, object]], option: str) -> None:
    """Raise `Usage` when a repeated option has the same name twice."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise Usage(f"{option} names {shown(name)} twice.")
        seen.add(name)


def check_realms(*given: tuple[str, object]) -> None:
    """Raise `Usage` when a value is given together with `--realm '*'`; `given` are pairs of name and value."""
    names = [name for name, value in given if value is not None]
    if names and global_options.realm() == global_options.ALL:
        raise Usage(f"--realm '*' lists what all realms have: leave {' and '.join(names)} out, or name the realm.")


def check_one_of(*given: tuple[str, object]) -> None:
    """Raise `Usage` when more than one of these options has a value; `given` are pairs of name and value."""
    names = [name for name, value in given if value is not None]
    if len(names) > 1:
        raise Usage(f"{' and '.join(names)} exclude each other.")


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that have a value, for the body of a call."""
    return {name: value for name, value in values.items() if value is not None}


def shown(text: str) -> str:
    """Return a text for a sentence: quoted, cut to 80 characters, with control characters escaped."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
