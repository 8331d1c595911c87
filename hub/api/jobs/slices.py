"""Reading large submits a slice at a time: others are served in between, and no call of the parser is long."""

from __future__ import annotations

import asyncio
import re
from array import array
from itertools import accumulate
from json import JSONDecodeError, JSONDecoder
from typing import Any

import orjson

from hub.errors import Malformed, TooLarge

SLICE = 16_384  # characters between two turns for the others: a millisecond or two
SMALL = 1_024
STEP = 128  # a step costs as much as so many characters, however short it is
MEMBERS_MAX = 100
GUESSES = 4  # where the last whole item of a part may end
DIGITS_MAX = 4_300  # more are no number to Python
_scan = JSONDecoder().raw_decode
_blank = re.compile(r"[ \t\n\r]*").match
_scalar = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null").match
_CLOSING = {"[": "]", "{": "}"}
_LARGE: dict[str, Any] = {"[": [], "{": {}}  # stands for a large value where its kind is all that counts
_LAST = {"{": "},", "[": "],"}  # what the last whole item of a part ends with, by what the first begins with
_ONE_UP = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[{]}")


class Slices:
    """One large body that should be a JSON object with `payloads` in it.

    `document` is what it says, in which every item of `payloads` is `{}` if it is an object and null if it is none;
    `texts` has the JSON text of each member, of `payloads` of each item, without blanks between its parts.
    """

    def __init__(self, body: bytes, most: int, many: int, levels: int) -> None:
        """No value may have more than `most` bytes or `levels`, and `payloads` no more than `many` items."""
        self.document: dict[str, Any] = {}
        self.texts: dict[str, Any] = {}
        self._most, self._many, self._levels = most, many, levels
        self._since_turn = self._at = 0
        self._together_from = self._alone_from = 0
        self._window = SLICE
        try:
            self._text = body.decode()
        except UnicodeDecodeError as error:
            raise _broken(error.start) from None

    async def read(self) -> None:
        """Read it all; raises `Malformed` and `TooLarge`."""
        if self._peek() != "{":
            self._most = len(self._text) * 4
            await self._value(())
            message = "Input should be a valid dictionary or object to extract fields from"
            raise _broken(self._at) if self._peek() else _wrong("model_attributes_type", ["body"], message)
        self._expect("{")
        if not self._skip("}"):
            while True:
                name = self._name()
                self._expect(":")
                if name == "payloads" and self._skip("["):
                    await self._items()
                else:
                    self.texts[name] = text = await self._value((name,))
                    self.document[name] = orjson.loads(text) if len(text) < SLICE else _LARGE.get(text[0], "")
                    if len(self.document) > MEMBERS_MAX:
                        raise _wrong("too_long", ["body"], f"Input should have at most {MEMBERS_MAX} members")
                if not self._skip(","):
                    break
            self._expect("}")
        if self._peek():
            raise _broken(self._at)

    async def _items(self) -> None:
        texts: list[str] = []
        self.texts["payloads"] = texts
        if not self._skip("]"):
            while True:
                texts.append(await self._value(("payloads", len(texts))))
                if len(texts) > self._many:
                    said = f"List should have at most {self._many} items after validation"
                    raise _wrong("too_long", ["body", "payloads"], said)
                if not self._skip(","):
                    break
            self._expect("]")
        self.document["payloads"] = [{} if text[0] == "{" else None for text in texts]

    async def _value(self, where: tuple[str | int, ...]) -> str:
        """The text of the value that begins here. What is large is taken apart, level by level."""
        pieces: list[str] = []
        within: list[str] = []  # what closes those that are open
        size = seen = 0
        while True:
            began = self._at
            try:
                self._step(pieces, within)
            except _TooDeep:
                if not where:
                    raise _broken(self._at) from None
                said = f"Input should have at most {self._levels} levels"
                raise _wrong("nesting", ["body", *where], said) from None
            size += sum(len(piece) if piece.isascii() else len(piece.encode()) for piece in pieces[seen:])
            seen = len(pieces)
            if size > self._most:
                raise TooLarge(f"{'.'.join(map(str, where))} has more than {self._most} bytes.")
            self._since_turn += self._at - began + STEP
            if self._since_turn >= SLICE:
                self._since_turn = 0
                await asyncio.sleep(0)
            if not within:
                return "".join(pieces)

    def _step(self, pieces: list[str], within: list[str]) -> None:
        """Read one value, or several that stand together, or enter one that is large; and leave what ends behind it."""
        first = self._peek()
        if within and (length := self._together(first, within[-1])):
            self._take(pieces, within, length)
        elif first in _CLOSING:
            if length := self._alone():
                self._take(pieces, within, length)
            else:
                self._at += 1
                within.append(_CLOSING[first])
                pieces.append(first)
                if len(within) > self._levels:
                    raise _TooDeep
                if self._peek() != within[-1]:
                    if first == "{":
                        pieces.append(self._name_text())
                    return
        elif first == '"':
            start = self._at
            self._name()
            pieces.append(self._text[start : self._at])
        else:
            found = _scalar(self._text, self._at)
            if found is None or len(found[0]) > DIGITS_MAX:
                raise _broken(self._at)
            self._checked(found[0])
            self._at = found.end()
            pieces.append(found[0])
        self._leave(pieces, within)

    def _leave(self, pieces: list[str], within: list[str]) -> None:
        while within:
            if pieces[-1] not in _CLOSING and self._skip(","):
                pieces.append("," + self._name_text() if within[-1] == "}" else ",")
                return
            self._expect(within[-1])
            pieces.append(within.pop())

    def _take(self, pieces: list[str], within: list[str], length: int) -> None:
        piece = compact(self._text[self._at : self._at + length])
        if is_deep(piece, self._levels - len(within)):
            raise _TooDeep
        pieces.append(piece)
        self._at += length

    def _together(self, first: str, closing: str) -> int:
        """How much of what comes is items, or members, of the one that is open: found by having them read at once.

        Where that fails less is tried, where it succeeds more: at the end of a list, or among few large items.
        """
        last, whole = (_LAST.get(first, ","), "[%s]") if closing == "]" else (',"', '{"":%s}')
        while self._at >= self._together_from:
            part = self._text[self._at : self._at + self._window]
            end = len(part)
            for _ in range(GUESSES):
                end = part.rfind(last, 0, end)
                if end < 0:
                    break
                length = end + last.index(",")
                self._since_turn += length // 2
                try:
                    orjson.loads(whole % part[:length])
                except orjson.JSONDecodeError:
                    continue
                self._window = min(SLICE, 4 * self._window)
                return length
            if self._window == SMALL:
                self._together_from = self._at + SMALL
            self._window = max(SMALL, self._window // 4)
        return 0

    def _alone(self) -> int:
        """The length of the value that begins here, 0 when it is too large to be read at once, or broken."""
        for window in (SMALL, SLICE):
            if window == SLICE and self._at < self._alone_from:
                return 0
            part = self._text[self._at : self._at + window]
            try:
                length = int(_scan(part, 0)[1])
            except (ValueError, RecursionError):
                continue
            self._checked(part[:length])
            return length
        self._since_turn += SLICE // 2
        self._alone_from = self._at + SLICE // 8
        return 0

    def _checked(self, text: str) -> None:
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise _broken(self._at + error.pos) from None

    def _name_text(self) -> str:
        self._peek()
        start = self._at
        self._name()
        end = self._at
        self._expect(":")
        return self._text[start:end] + ":"

    def _name(self) -> str:
        start = self._at
        self._expect('"')
        try:
            name, self._at = _scan(self._text, self._at - 1)
            orjson.loads(self._text[start : self._at].lstrip())
        except (JSONDecodeError, orjson.JSONDecodeError):
            raise _broken(start) from None
        return str(name)

    def _peek(self) -> str:
        """The next character that is no blank; empty at the end."""
        if found := _blank(self._text, self._at):
            self._at = found.end()
        return self._text[self._at : self._at + 1]

    def _skip(self, wanted: str) -> bool:
        if self._peek() == wanted:
            self._at += 1
            return True
        return False

    def _expect(self, wanted: str) -> None:
        if not self._skip(wanted):
            raise _broken(self._at)


class _TooDeep(Exception):
    """More levels than anybody needs."""


def compact(text: str) -> str:
    """JSON without the blanks between its parts."""
    if not any(blank in text for blank in " \n\t\r"):
        return text
    parts = _by_quotes(text)
    outside = '"'.join(parts[::2]).encode().translate(None, b" \t\n\r").decode()
    parts[::2] = outside.split('"')
    return '"'.join(parts).replace("\1", '\\"').replace("\0", "\\\\")


def is_deep(text: str, most: int) -> bool:
    """Whether there are more levels in JSON than this."""
    if text.count("[") + text.count("{") <= most:
        return False
    outside = "".join(_by_quotes(text)[::2]).encode()
    return max(accumulate(array("b", outside.translate(_ONE_UP, _NO_BRACKETS))), default=0) > most


def _by_quotes(text: str) -> list[str]:
    """JSON split at the quotes: every other part stands between two.

    No control character stands in JSON, so that two of them can stand for what might be taken for the quote at an end.
    """
    if "\\" in text:
        text = text.replace("\\\\", "\0").replace('\\"', "\1")
    return text.split('"')


def _broken(at: int) -> Malformed:
    return _wrong("json_invalid", ["body", at], "JSON decode error", {})


def _wrong(kind: str, where: list[str | int], said: str, given: Any = None) -> Malformed:
    return Malformed(errors=[{"type": kind, "loc": where, "msg": said, "input": given}])
