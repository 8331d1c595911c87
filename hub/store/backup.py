"""Copies of a store in a file of JSON lines, and stores made from such a file, also on another kind of server.

The first line says what the file is, the last line how many lines there are and their SHA-256. A file that was cut off
or changed is refused before anything is written. Every other line is a key, or a part of a large key, with its type
and, where the key expires, the time of that. Only one part at a time is held in memory.

A store that was made from a copy is opened like a store that has lost data: tokens jump above all that may have been
given since the copy, nothing is lent for a moment, and nodes and hubs report what they know.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from redis.exceptions import RedisError

from hub.batched import batched
from hub.errors import ForeignKey, HubError, StoreFault
from hub.store.faults import translated
from hub.store.scan import keys_of
from hub.store.store import Store

KIND = "capacity-hub-store"
VERSION = 1  # the version of this file format
PART = 500  # most members, items, fields or entries in one line
QUIET_S = 3.0  # a hub that has not ticked for so long has stopped, or cannot change the store
BESIDE = 100  # keys that are read side by side
LONGEST_HEAD = 1000  # bytes of the first line that are read: a file that is no copy may have no line breaks
LONGEST = 1 << 30  # bytes of any other line, which may hold many large members
LATEST_MS = 1 << 53  # a time at which a key expires must be below this
Line = dict[str, Any]
_ENTRY = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
_SCANS = {"hash": "HSCAN", "set": "SSCAN", "zset": "ZSCAN"}
_BEGINS = {"string": "", "list": 0, "stream": "-", **dict.fromkeys(_SCANS, "0")}


class CopyRefused(HubError):
    """A copy cannot be written or read: the file is no complete copy, hubs are running, or the store is not empty. The
    sentence says what to do.
    """

    code = "copy-refused"


@dataclass(frozen=True)
class Copied:
    """The number of keys and of lines that were written."""

    keys: int
    lines: int


async def hubs_alive(store: Store) -> int:
    """Return how many hubs ticked on this store within the last three seconds."""
    tick_ms, clock_ms = await store.read("HMGET", store.keys.store, "tick_ms", "clock_ms")
    seconds, micros = await store.read("TIME")
    if tick_ms is None or int(seconds) + int(micros) / 1e6 - int(tick_ms) / 1000 > QUIET_S:
        return 0
    return int(await store.read("ZCOUNT", store.keys.hubs, int(clock_ms) - QUIET_S * 1000, "+inf"))


async def write_copy(store: Store, path: Path) -> Copied:
    """Write a copy of all keys under the prefix of the store into a new file; return how much was written.

    Raises `CopyRefused` while hubs run, because a copy of keys that change meanwhile would contradict itself.
    """
    if alive := await hubs_alive(store):
        raise CopyRefused(
            f"Hubs use this store ({alive}); stop them first: a copy of what changes is of no one moment."
        )
    keys = lines = 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        writer = _Writer(file)
        writer.put({"kind": KIND, "version": VERSION, "at": round(time.time(), 3)})
        async for line in lines_of(store):
            keys += "more" not in line
            writer.put(line)
            lines += 1
        writer.end()
    return Copied(keys, lines)


async def read_copy(store: Store, path: Path) -> Copied:
    """Fill an empty store from a copy; return how much was written. A call that was cut short may be repeated.

    Raises `CopyRefused` for a file that is no complete copy, and for a store that holds anything else.
    """
    digest = _checked(path)
    await _refuse_what_is_there(store, digest)
    await store.read("SET", store.keys.restoring, digest)
    await store.read("DEL", store.keys.store)
    keys = lines = 0
    before, last = None, []
    for line in _lines(path):
        if line["key"] == store.keys.store.removeprefix(store.keys.prefix):
            last.append(line)  # written last: without this hash no hub can open the half-filled store
            continue
        keys += line["key"] != before
        before = line["key"]
        await _put(store, line)
        lines += 1
    for line in last:
        await _put(store, line)
    await store.read("HSET", store.keys.store, "run_id", "a copy")
    await store.read("DEL", store.keys.restoring)
    return Copied(keys + bool(last), lines + len(last))


async def _refuse_what_is_there(store: Store, digest: str) -> None:
    if await store.read("GET", store.keys.restoring) != digest:
        async for names in keys_of(store, store.keys.prefix):
            if others := [name for name in names if name != store.keys.store]:
                raise CopyRefused(
                    f"The store is not empty: it has {others[0]}. Name one that is, or another HUB_KEY_PREFIX."
                )
    if await hubs_alive(store):
        raise CopyRefused("Hubs use this store; stop them first.")


async def lines_of(store: Store) -> AsyncIterator[Line]:
    """Yield a line for each key of a store; several for a large key, all of which but the first have `more` set."""
    async for names in keys_of(store, store.keys.prefix):
        for some in batched(names, BESIDE):
            heads = await _together(store, [(word, name) for name in some for word in ("TYPE", "PEXPIRETIME")])
            kinds, ends = heads[::2], heads[1::2]
            found = [_Reading(store, *each) for each in zip(some, kinds, ends, strict=True) if each[1] != "none"]
            answers = await _together(store, [each.command() for each in found])
            for reading, answer in zip(found, answers, strict=True):
                if line := reading.take(answer):
                    yield line
                while reading.after is not None:
                    if line := reading.take(await store.read(*reading.command())):
                        yield line


async def _together(store: Store, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return the answers of plain commands that are sent in one pipeline, which costs less than a call for each."""
    try:
        async with store.client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            return list(await pipe.execute())
    except (RedisError, OSError) as error:
        raise translated(error) from error


class _Reading:
    """The reading of one key, part by part. `after` is where the next part begins, None when there is none."""

    def __init__(self, store: Store, name: str, kind: str, ends_ms: int) -> None:
        if kind not in _BEGINS:
            raise CopyRefused(f"{name} is a {kind}, which no key of the hub is; hub doctor tells more.")
        self.after: Any = _BEGINS[kind]
        self._name, self._kind = name, kind
        self._head: Line = {"key": name.removeprefix(store.keys.prefix), "type": kind}
        self._head |= {"ends": ends_ms} if ends_ms > 0 else {}

    def command(self) -> tuple[Any, ...]:
        """Return the command that reads the next part."""
        match self._kind:
            case "string":
                return "GET", self._name
            case "list":
                return "LRANGE", self._name, self.after, self.after + PART - 1
            case "stream":
                return "XRANGE", self._name, self.after, "+", "COUNT", PART
        return _SCANS[self._kind], self._name, self.after, "COUNT", PART

    def take(self, answer: Any) -> Line | None:
        """Return the line for the answer to `command`; None for an empty one, such as of a key that has expired."""
        value = answer
        match self._kind:
            case "string":
                self.after = None
            case "list":
                self.after = self.after + PART if len(answer) == PART else None
            case "stream":
                value = [[entry, list(chain.from_iterable(fields.items()))] for entry, fields in answer]
                self.after = f"({answer[-1][0]}" if len(answer) == PART else None
            case _:
                cursor, members = answer
                pairs = members.items() if isinstance(members, dict) else members
                value = [each if isinstance(each, str) else list(each) for each in pairs]
                self.after = None if str(cursor) == "0" else cursor
        if value is None or value == []:
            return None
        line = {**self._head, "value": value}
        self._head["more"] = True
        return line


async def _put(store: Store, line: Line) -> None:
    try:
        await store.read_all(commands_of(store.keys.prefix, line))
    except (ForeignKey, StoreFault) as error:  # two parts of one key with different types, or stream ids out of order
        raise CopyRefused(f"A part of {line['key']} is refused by Redis: {error}") from None


def commands_of(prefix: str, line: Line) -> list[tuple[Any, ...]]:
    """Return the commands that write a line into a store, in order."""
    name, value = prefix + line["key"], line["value"]
    commands: list[tuple[Any, ...]] = [] if line.get("more") else [("DEL", name)]
    match line["type"]:
        case "string":
            commands.append(("SET", name, value))
        case "list":
            commands.append(("RPUSH", name, *value))
        case "set":
            commands.append(("SADD", name, *value))
        case "hash":
            commands.append(("HSET", name, *chain.from_iterable(value)))
        case "zset":
            commands.append(("ZADD", name, *chain.from_iterable((score, member) for member, score in value)))
        case "stream":
            commands += [("XADD", name, entry, *fields) for entry, fields in value]
    if "ends" in line:
        commands.append(("PEXPIREAT", name, line["ends"]))
    return commands


class _Writer:
    """A writer of lines into a file; the last line holds their number and digest."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lines = 0
        self._digest = hashlib.sha256()

    def put(self, document: dict[str, Any]) -> None:
        line = json.dumps(document, separators=(",", ":")) + "\n"  # ASCII, so bytes that are not UTF-8 survive
        self._digest.update(line.encode())
        self._lines += 1
        self._file.write(line)

    def end(self) -> None:
        self._file.write(json.dumps({"lines": self._lines, "sha256": self._digest.hexdigest()}) + "\n")


def _checked(path: Path) -> str:
    """Check a whole file and return its digest; raises `CopyRefused` for a file that is no complete copy."""
    digest, lines, end = hashlib.sha256(), 0, b""
    with path.open("rb") as file:
        while line := file.readline(LONGEST if lines else LONGEST_HEAD):
            if lines:
                digest.update(end)
            if lines > 1 and not _is_line(_document(end)):
                raise CopyRefused(f"{path} has something else than a part of a key in line {lines}.")
            end, lines = line, lines + 1
            if lines == 1:
                _refuse_foreign(line, path)
    if not lines or _document(end) != {"lines": lines - 1, "sha256": digest.hexdigest()}:
        raise CopyRefused(f"{path} is not whole: it was cut off or changed since it was written.")
    return digest.hexdigest()


def _refuse_foreign(line: bytes, path: Path) -> None:
    head = _document(line)
    if head.get("kind") != KIND:
        raise CopyRefused(f"{path} is no copy of a store; `hub store export` writes one.")
    if head.get("version") != VERSION:
        raise CopyRefused(f"{path} is a copy of version {head.get('version')}, and this hub reads {VERSION}.")


def _document(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_line(document: Line) -> bool:
    """Return whether a document is a part of a key in the form in which `write_copy` writes it."""
    match document:
        case {"key": key, "type": kind, "value": value, **more} if _is_text(key) and kind in list(_BEGINS):
            ends, is_more = more.pop("ends", 1), more.pop("more", True)
            return not more and is_more is True and type(ends) is int and 0 < ends < LATEST_MS and _fits(kind, value)
    return False


def _fits(kind: str, value: Any) -> bool:
    if kind == "string":
        return _is_text(value)
    if not isinstance(value, list) or not value:
        return False
    if kind in ("list", "set"):
        return all(map(_is_text, value))
    if not all(isinstance(each, list) and len(each) == 2 and _is_text(each[0]) for each in value):
        return False
    match kind:
        case "hash":
            return all(_is_text(text) for _, text in value)
        case "zset":
            return all(_is_score(score) for _, score in value)
    return all(_ENTRY.fullmatch(entry) and _is_record(fields) for entry, fields in value)


def _is_text(value: Any) -> bool:
    """Return whether a value is text that Redis can take: surrogates in it must stand for bytes that are not UTF-8."""
    try:
        return isinstance(value, str) and value.encode("utf-8", "surrogateescape") is not None
    except UnicodeEncodeError:
        return False


def _is_score(value: Any) -> bool:
    try:
        return type(value) in (int, float) and not math.isnan(float(value))
    except OverflowError:
        return False


def _is_record(fields: Any) -> bool:
    return isinstance(fields, list) and bool(fields) and len(fields) % 2 == 0 and all(map(_is_text, fields))


def _lines(path: Path) -> Iterator[Line]:
    """Yield the lines of keys, which are all but the first and the last."""
    with path.open("rb") as file:
        next(file)
        for line in file:
            document: dict[str, Any] = json.loads(line)
            if "key" in document:
                yield document
