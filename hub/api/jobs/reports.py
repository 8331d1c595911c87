"""The repair of reports on tasks: a report with an odd text must still count, because its task would stay open
otherwise. The functions only compute."""

from __future__ import annotations

import re

from hub.errors import TooLarge

ERROR_BYTES = 65_536  # of the error of a task that are kept
CUT = " [cut]"
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_error = re.compile(rb'("error"\s*+:\s*+)(' + _STRING + rb")", re.DOTALL)
_part = re.compile(_STRING + rb"|-?Infinity|NaN", re.DOTALL)
_pair = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_half = rb"u[dD][89a-fA-F][0-9a-fA-F]{2}"
_escape = re.compile(rb"\\(?:" + _pair + rb"|(" + _half + rb")|.)", re.DOTALL)
_broken = re.compile(rb"(?<!\\)(?:\\\\)*+(\\(?:u[0-9a-fA-F]{0,3}+)?)$")


def shortened(body: bytes, most: int) -> bytes:
    """Return a body in which all errors are cut, if it has more than `most` bytes; raises `TooLarge` when it is still
    too long.

    A body with results stays as it is, because a member of a result may also be called `error`.
    """
    if len(body) > most and b'"result"' not in body:
        body = _error.sub(lambda found: found[1] + _cut(found[2]), body)
    if len(body) > most:
        raise TooLarge(f"The report has more than {most} bytes.")
    return body


def spelt(body: bytes) -> bytes:
    """Return a body in which some faults that writers of JSON make are repaired: NaN and infinity become null, half of
    a surrogate pair becomes the text of its escape, and bytes that are no UTF-8 are replaced."""
    return _part.sub(_spelt_part, body.decode("utf-8", "replace").encode())


def kept(error: str | None) -> str:
    """Return the error of a task, cut to the length that the hub keeps; empty for None."""
    if not error or len(error) <= ERROR_BYTES // 4:
        return error or ""
    text = error.encode()
    return error if len(text) <= ERROR_BYTES else text[: ERROR_BYTES - len(CUT)].decode(errors="ignore") + CUT


def _cut(string: bytes) -> bytes:
    """Return the beginning of a JSON string, longer than what `kept` keeps: `kept` cuts it again, and marks the cut."""
    if len(string) <= 8 * ERROR_BYTES:
        return string
    inside = string[1 : 8 * ERROR_BYTES]  # an escape of one character may have six
    if (found := _broken.search(inside)) is not None:
        inside = inside[: found.start(1)]
    return b'"' + inside.decode(errors="ignore").encode() + b'"'


def _spelt_part(found: re.Match[bytes]) -> bytes:
    part = found[0]
    if not part.startswith(b'"'):
        return b"null"
    return _escape.sub(lambda each: b"\\" + each[0] if each[1] else each[0], part) if b"\\" in part else part
