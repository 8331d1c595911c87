"""Pool labels: `app:kind:env`, two to eight segments from general to specific. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from hub.errors import InvalidLabel

SEGMENTS_MAX = 8
LENGTH_MAX = 512  # characters; a bound for keys and metric labels, far above any real label
KEPT = 1_000  # parsed labels that are cached: checking each character of a label costs as much as parsing its request
ANY_KIND: frozenset[str] = frozenset()

_WHY = {
    "null": "it is missing",
    "empty": "it is empty",
    "leading-colon": "it begins with a colon",
    "trailing-colon": "it ends with a colon",
    "double-colon": "it has an empty segment",
    "too-few": "it has too few segments; write at least two, such as gpu:a100",
    "too-many": "it has more than eight segments",
    "too-long": f"it is longer than {LENGTH_MAX} characters",
    "empty-segment": "it has an empty segment",
    "forbidden-char": "a segment contains a blank or a control character",
    "kind-not-allowed": "its second segment is not one of the kinds this hub lends",
}


@dataclass(frozen=True)
class Label:
    """A label that follows the grammar. Two labels are the same when their `text` is the same."""

    text: str
    segments: tuple[str, ...]


def parse_label(
    given: str | None,
    kinds: frozenset[str] = ANY_KIND,
    *,
    wildcards: bool = False,
    segments_min: int = 2,
    case: Literal["keep", "lower", "upper"] = "keep",
) -> Label:
    """Return the label that `given` spells; raises `InvalidLabel` with the reason code of the first rule that `given`
    breaks.

    `kinds` are the words allowed as second segment, compared without case; empty allows any. A label of one segment is
    not checked for its kind, nor, with `wildcards`, one that contains `*`.
    """
    if given is None:
        raise _invalid("null")
    return _read(given.strip(), kinds, wildcards, segments_min, case)


@lru_cache(maxsize=KEPT)
def _read(trimmed: str, kinds: frozenset[str], wildcards: bool, segments_min: int, case: str) -> Label:
    segments = tuple(segment.strip() for segment in trimmed.split(":"))
    broken = _first_broken_rule(trimmed, segments, segments_min)
    if broken:
        raise _invalid(broken)
    any_kind = not kinds or len(segments) < 2 or (wildcards and "*" in trimmed)
    if not any_kind and segments[1].lower() not in {kind.lower() for kind in kinds}:
        raise _invalid("kind-not-allowed")
    if case != "keep":
        segments = tuple(segment.lower() if case == "lower" else segment.upper() for segment in segments)
    return Label(":".join(segments), segments)


def _first_broken_rule(trimmed: str, segments: tuple[str, ...], segments_min: int) -> str | None:
    rules = (
        ("empty", not trimmed),
        ("leading-colon", trimmed.startswith(":")),
        ("trailing-colon", trimmed.endswith(":")),
        ("double-colon", "::" in trimmed),
        ("too-few", len(segments) < segments_min),
        ("too-many", len(segments) > SEGMENTS_MAX),
        ("too-long", len(trimmed) > LENGTH_MAX),
    )
    for reason, broken in rules:
        if broken:
            return reason
    for segment in segments:
        if not segment:
            return "empty-segment"
        if any(c.isspace() or not c.isprintable() for c in segment):
            return "forbidden-char"
    return None


def _invalid(reason: str) -> InvalidLabel:
    return InvalidLabel(f"invalid labelKey: {_WHY[reason]} ({reason})", reason=reason)


@cache
def parse_kinds(text: str) -> frozenset[str]:
    """Return the kinds that the setting `HUB_LABEL_KINDS` lists; an empty set, for `*` or no text, allows any kind."""
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    return ANY_KIND if "*" in words else words


def parse_caps(text: str) -> dict[str, int]:
    """Return the cap of each label (most live leases) from `LABEL=N,LABEL=N`.

    A part that is no such pair is left out; of two parts with one label the last counts.
    """
    caps: dict[str, int] = {}
    for part in text.split(","):
        left, _, right = part.partition("=")
        left, right = left.strip(), right.strip()
        if not (left and re.fullmatch(r"\+?[0-9]{1,9}", right) and int(right) > 0):
            continue
        try:
            caps[parse_label(left, segments_min=1).text] = int(right)
        except InvalidLabel:
            caps[left] = int(right)
    return caps
