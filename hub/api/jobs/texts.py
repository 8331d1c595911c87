"""JSON as text: the parts of a document are kept as they were sent, with all digits of numbers and the order of
members. The functions only compute."""

from __future__ import annotations

import gc
import re
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from json import JSONDecoder

from hub.errors import Malformed

_scan = JSONDecoder().raw_decode
_blank = re.compile(r"[ \t\n\r]*").match
_ONE_UP = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[{]}")


@contextmanager
def uncollected() -> Iterator[None]:
    """Stop the garbage collector within the block: it would look at every part of a large document again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def compact(text: str) -> str:
    """Return JSON without the white space between its parts."""
    if not any(blank in text for blank in " \n\t\r"):
        return text
    parts = _by_quotes(text)
    outside = '"'.join(parts[::2]).encode().translate(None, b" \t\n\r").decode()
    parts[::2] = outside.split('"')
    return '"'.join(parts).replace("\1", '\\"').replace("\0", "\\\\")


def is_deep(text: str, most: int) -> bool:
    """Return whether JSON is nested more deeply than `most` levels."""
    if text.count("[") + text.count("{") <= most:
        return False
    outside = "".join(_by_quotes(text)[::2]).encode()
    return max(accumulate(array("b", outside.translate(_ONE_UP, _NO_BRACKETS))), default=0) > most


def _by_quotes(text: str) -> list[str]:
    """Split JSON at its quotes, so that every other part is the inside of a string.

    JSON has no control characters, so two of them stand for escaped backslashes and escaped quotes during the split.
    """
    if "\\" in text:
        text = text.replace("\\\\", "\0").replace('\\"', "\1")
    return text.split('"')


def member(text: str, wanted: str) -> str:
    """Return the value of a member of an object, as it was sent; empty when there is none. `text` is valid JSON. Of
    several members with this name the last one counts."""
    found, at = "", _inside(text, 0)
    while text[at] != "}":
        name, at = _name(text, at)
        end = _end(text, at)
        found = text[at:end] if name == wanted else found
        at = _after_comma(text, end)
    return found


def items(text: str, wanted: str) -> Iterator[str]:
    """Yield the items of a member that is a list, each as it was sent. `text` is the valid JSON of an object.

    An empty text comes before the first item. If a later member has the same name, an empty text comes again: then the
    items before it must be dropped, because the last member counts.
    """
    at = _inside(text, 0)
    while text[at] != "}":
        name, at = _name(text, at)
        if name != wanted or text[at] != "[":
            at = _after_comma(text, _end(text, at))
            continue
        yield ""
        at = _inside(text, at)
        while text[at] != "]":
            end = _end(text, at)
            yield text[at:end]
            at = _after_comma(text, end)
        at = _after_comma(text, at + 1)


def members(text: str) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each member of an object. The object has no white space between its parts."""
    at = 1
    while text[at] != "}":
        name, at = _scan(text, at)
        end = _end(text, at + 1)
        yield name, text[at + 1 : end]
        at = end + 1 if text[end] == "," else end


def _name(text: str, at: int) -> tuple[str, int]:
    """Read the name of a member; return the name and the position where its value begins."""
    name, at = _scan(text, at)
    return name, _inside(text, at)


def _end(text: str, at: int) -> int:
    """Return the position behind the value that begins at `at`; raises `Malformed` when Python cannot read the
    value."""
    try:
        with uncollected():
            end = _scan(text, at)[1]
    except (ValueError, RecursionError):  # a number with thousands of digits; thousands of levels
        wrong = {"type": "json_invalid", "loc": ["body", at], "msg": "JSON decode error", "input": {}}
        raise Malformed(errors=[wrong]) from None
    return end


def _inside(text: str, at: int) -> int:
    """Return the position of the first part behind the next bracket or colon."""
    return _after_blanks(text, _after_blanks(text, at) + 1)


def _after_comma(text: str, at: int) -> int:
    at = _after_blanks(text, at)
    return _after_blanks(text, at + 1) if text[at] == "," else at


def _after_blanks(text: str, at: int) -> int:
    found = _blank(text, at)
    return found.end() if found else at
