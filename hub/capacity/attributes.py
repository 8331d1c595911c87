"""What slots say of themselves, which `where` compares and `prefer` looks for: `attributes` and `warm`. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from hub.errors import InvalidValue

NAMES_MAX, NAME_MAX = 32, 64  # attributes of a slot, and characters of a name
BYTES_MAX = 4096  # of the attributes of a slot as JSON
NUMBER_MAX = 2**53 - 1  # beyond this not every whole number is one of Lua, which judges
WARM_MAX, PREFER_MAX = 16, 8
NAME = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"
# Words that no part of a name may be, as CEL gives them a meaning or keeps them for one.
RESERVED = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
))  # fmt: skip
_NAME = re.compile(NAME)
_KEY = re.compile(r"[A-Za-z0-9_.:/@+-]{1,64}")


@dataclass(frozen=True)
class PoolClass:
    """A class of slots of a pool, those with the same attributes: how many there are, and how many of them are free."""

    pool: str
    attributes: dict[str, Any]
    slots: int
    free: int


def read_attributes(value: Any) -> str:
    """Return the attributes of a slot as canonical JSON: names and members of lists in order, no blanks, `40` for 40.0.
    Raises `InvalidValue` for whatever is no object of numbers, texts, booleans and lists of texts, or is too large.
    """
    if not isinstance(value, dict) or len(value) > NAMES_MAX:
        raise _invalid(f"attributes must be an object of at most {NAMES_MAX} names")
    for name in value:
        if not is_name(name):
            rule = "letters, digits and _, dots between parts that begin with no digit and are no reserved words of CEL"
            raise _invalid(f"attributes: a name has at most {NAME_MAX} {rule}; not {name!r:.80}")
    described = {name: _canonical(name, each) for name, each in value.items()}
    text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        raise _invalid("attributes: a text is not valid Unicode") from None
    if size > BYTES_MAX:
        raise _invalid(f"attributes must have at most {BYTES_MAX} bytes as JSON; these have {size}")
    return text


def read_warm(value: Any) -> str:
    """Return the keys of what is warm in a slot, joined by blanks; raises `InvalidValue` for another value."""
    return read_keys(value, "warm", WARM_MAX)


def read_keys(value: Any, member: str, most: int) -> str:
    """Return a list of at most `most` keys, without repeats, joined by blanks; raises `InvalidValue` for another value
    of `member`.
    """
    if not isinstance(value, list) or len(value) > most:
        raise InvalidValue(f"{member} must be a list of at most {most} keys", member=member)
    for key in value:
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            rule = "a key has 1 to 64 characters: letters, digits and any of _ . : / @ + -"
            raise InvalidValue(f"{member}: {rule}; not {key!r:.80}", member=member)
    return " ".join(dict.fromkeys(value))


def class_of(attributes: str) -> str:
    """Return the class of slots with these attributes, which are canonical JSON: 16 hex digits; '' for ''."""
    return digest(attributes) if attributes else ""


def digest(text: str) -> str:
    """Return 16 hex digits that stand for a text."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:16]


def is_name(name: str) -> bool:
    """Return whether an attribute may have this name."""
    return len(name) <= NAME_MAX and bool(_NAME.fullmatch(name)) and RESERVED.isdisjoint(name.split("."))


def canonical_number(number: float) -> float:
    """Return a number as it is written in canonical JSON: an `int` where it is whole. Raises ValueError where it is so
    large that two whole numbers would be one to Lua, or is none.
    """
    if not abs(number) <= NUMBER_MAX:
        raise ValueError(f"a number from -{NUMBER_MAX} to {NUMBER_MAX}")
    return int(number) if number == int(number) else number


def _canonical(name: str, value: Any) -> Any:
    texts = value if isinstance(value, list) else [value]
    if any(isinstance(each, str) and each and min(each) < " " for each in texts):
        raise _invalid(f"attributes: {name} has a control character, such as NUL or a line feed")
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return sorted(set(value))
    if not isinstance(value, (int, float)):
        raise _invalid(f"attributes: {name} must be a number, a text, true, false or a list of texts")
    try:
        return canonical_number(value)
    except ValueError as error:
        raise _invalid(f"attributes: {name} must be {error}") from None


def _invalid(rule: str) -> InvalidValue:
    return InvalidValue(rule, member="attributes")
