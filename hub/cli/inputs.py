"""The readers of values on a command line; they check a value before anything is sent."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

import typer

from hub.capacity.labels import parse_label
from hub.capacity.nodes.models import DRAIN_DEADLINE_MAX_S
from hub.errors import InvalidLabel

LONGEST_ID = 512  # a longer text was pasted by accident
YEAR_S = 366 * 86_400
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Usage(Exception):
    """The refusal of a wrong command line; the text is one sentence."""


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


def read_label(text: str) -> str:
    """Return a label in its normal form; raises `BadParameter`, as all readers here do."""
    try:
        return parse_label(text).text
    except InvalidLabel as error:
        why = str(error.detail).partition(": ")[2].rpartition(" (")[0]
        raise typer.BadParameter(f"{shown(text)} is no label: {why}.") from None


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


def read_id(text: str) -> str:
    """Return the id of a node, a slot or a run."""
    trimmed = text.strip()
    if not trimmed or len(trimmed) > LONGEST_ID or not trimmed.isprintable() or trimmed in (".", ".."):
        raise typer.BadParameter(f"{shown(text)} is no id: write 1 to {LONGEST_ID} printable characters.")
    return trimmed


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


def shown(text: str) -> str:
    """Return a text for a sentence: quoted, cut to 80 characters, with control characters escaped."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
