"""The fleet file, in TOML; each mistake in it is refused in one sentence with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hub.errors import StartRefused
from hub.fleet.driver import Driver
from hub.fleet.drivers import driver_named
from hub.fleet.tables import PoolTable
from hub.fleet.templates import did_you_mean

_TOP = ("node", "host", "pools")
_ENTRY = re.compile(r"\s*\[\[\s*pools\s*\]\]")


@dataclass(frozen=True)
class FleetFile:
    """The content of a fleet file; `node` and `host` are empty where it leaves them out."""

    node: str
    host: str
    drivers: tuple[Driver[PoolTable], ...]


class _Mistake(Exception):
    """A mistake at a key of an entry (None: of the top)."""

    def __init__(self, entry: int | None, keys: Sequence[str], why: str) -> None:
        self.entry, self.keys, self.why = entry, keys, why


def read_fleet(path: Path) -> FleetFile:
    """Return what the file says; raises `StartRefused` with one sentence for a file that cannot be used."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        document = tomllib.loads(text)
    except OSError as error:
        raise StartRefused(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8
        why, _, place = str(error).partition(" (at line ")
        line = f", line {place.partition(',')[0]}" if place else ""
        raise StartRefused(f"{path.name}{line}: it is no TOML: {why}.") from None
    try:
        return _fleet(document)
    except _Mistake as mistake:
        line = f", line {_line(text, mistake.entry, mistake.keys)}"
        end = "" if mistake.why.endswith("?") else "."
        raise StartRefused(f"{path.name}{line}: {mistake.why}{end}") from None


def _fleet(document: dict[str, Any]) -> FleetFile:
    for key in document:
        if key not in _TOP:
            raise _Mistake(None, [key], f"{key} is unknown; {did_you_mean(key, _TOP)}")
    for key in ("node", "host"):
        value = document.get(key, "x")
        if not isinstance(value, str) or not value.strip():
            raise _Mistake(None, [key], f"{key} must be a text")
    entries = document.get("pools")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise _Mistake(None, ["pools"], "pools must be a list of tables; write [[pools]] above each pool")
    drivers: list[Driver[PoolTable]] = []
    for number, entry in enumerate(entries):
        driver = _driver(number, entry)
        if driver.table.label in {other.table.label for other in drivers}:
            raise _Mistake(number, ["label"], f"the label {driver.table.label!r} stands above already; name each once")
        drivers.append(driver)
    return FleetFile(document.get("node", "").strip(), document.get("host", "").strip(), tuple(drivers))


def _driver(number: int, entry: dict[str, Any]) -> Driver[PoolTable]:
    name = entry.get("driver")
    if not isinstance(name, str):
        raise _Mistake(number, ["driver"], "driver must be the name of a driver, as text")
    try:
        kind = driver_named(name)
    except ValueError as error:
        raise _Mistake(number, ["driver"], str(error)) from None
    try:
        return kind(kind.Table.model_validate(entry))
    except ValidationError as error:
        raise _told(number, error) from None


def _told(number: int, error: ValidationError) -> _Mistake:
    """Return the first mistake that pydantic has found, as a sentence that begins with its key."""
    found = max(error.errors(include_url=False, include_input=False), key=lambda each: each["type"] == "unknown_key")
    keys = [str(key) for key in found["loc"] if isinstance(key, str) and key.isidentifier() and key.islower()]
    context, at = found.get("ctx", {}), ".".join(keys)
    if found["type"] == "unknown_key":
        return _Mistake(number, [*keys, context["key"]], ".".join([*keys, found["msg"]]))
    if found["type"] == "missing":
        return _Mistake(number, keys[:-1], f"{at} is missing")
    if found["type"] == "value_error":
        return _Mistake(number, keys, f"{at} {context['error']}".strip())
    return _Mistake(number, keys, f"{at}: {found['msg'][:1].lower()}{found['msg'][1:]}")


def _line(text: str, entry: int | None, keys: Sequence[str]) -> int:
    """Return the number of the line of a key; the nearest one above it when it is written in an unusual way."""
    lines = text.splitlines() or [""]
    starts = [number for number, line in enumerate(lines) if _ENTRY.match(line)]
    first, last = 0, len(lines)
    if entry is not None and entry < len(starts):
        first, last = starts[entry], ([*starts, last])[entry + 1]
    for key in keys:
        word = rf"""["']?{re.escape(key)}["']?"""
        here = re.compile(rf"(^|[\s{{,.]){word}\s*[=.]|^\s*\[+[\w.\s]*{word}\s*\]")
        first = next((number for number in range(first, last) if here.search(lines[number])), first)
        if not lines[first].lstrip().startswith("["):  # a table within a line
            last = first + 1
    return first + 1
