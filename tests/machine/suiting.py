"""What slots of the machine have, what its tickets want, and which of them suit."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any

from hub.capacity.where import parse, suits

PLAIN = "-"  # the line of tickets that want nothing beside a label
ATTRIBUTES = tuple(
    json.dumps(each, sort_keys=True, separators=(",", ":")) if each is not None else ""
    for each in (
        {"vram": 24, "zone": "eu"},
        {"vram": 80, "zone": "us", "spot": True},
        {"vram": 80, "features": ["ib", "nvlink"]},
        {},
        None,
    )
)
WHERES = (
    "vram >= 40",
    'zone == "eu"',
    'zone != "eu"',
    "!spot",
    'vram < 40 || "ib" in features',
    "vram >= 40 && spot",
    "vram >= 20",
    "vram > 100",
)


def digest_of(attributes: str) -> str:
    """Return the class of attributes, "" where there are none."""
    return hashlib.sha1(attributes.encode()).hexdigest()[:16] if attributes else ""


@cache
def want_of(where: str) -> str:
    """Return the digest of what a text asks for, `PLAIN` where it asks for nothing."""
    return parse(where).want if where else PLAIN


@cache
def tree_of(where: str) -> str:
    """Return the JSON text of what a text asks for, "" where it asks for nothing."""
    return parse(where).tree if where else ""


@cache
def is_suited(where: str, attributes: str) -> bool:
    """Return whether a slot with these attributes may serve a borrow that asks for this."""
    if not where or not attributes:
        return not where
    tree: list[Any] = json.loads(tree_of(where))
    return suits(tree, json.loads(attributes)) is True


def alternatives_of(asks: tuple[tuple[str, str], ...]) -> str:
    """Return what scripts are told of them, "" of a borrow that wants a label alone."""
    if not asks:
        return ""
    told = [[label, "" if not where else want_of(where), tree_of(where), where] for label, where in asks]
    return json.dumps(told, separators=(",", ":"))
