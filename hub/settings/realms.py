"""The realms of `HUB_REALMS_FILE`, and the rules that find the realm of a call that does not name its realm.

    [[realms]]
    name = "eu"
    url = "redis+cluster://redis-1:6379,redis-2:6379"
    labels = ["gpu:*:eu"]
    rooms = ["lab-eu-*"]
    nodes = ["eu-*"]
    spill_to = ["us"]
    spill_after_s = 5

    [[realms]]
    name = "default"       # has no url here: its store is at HUB_REDIS_URL
    spill_to = ["us"]

The rules are tried in the order of the file, and the first that fits decides. In a pattern `*` stands for any text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from hub.errors import StartRefused
from hub.settings.knobs import BadSetting, mask_url, read_redis_url
from hub.settings.toml import read_fields, read_toml

DEFAULT: Final = "default"  # the name in commands and files of the realm that has no name
REALMS_MAX: Final = 100
PATTERNS_MAX: Final = 100  # patterns of one kind of one realm
PATTERN_MAX: Final = 200  # characters
Kind = Literal["labels", "rooms", "nodes"]
KINDS: Final[tuple[Kind, ...]] = ("labels", "rooms", "nodes")
SPILL_MAX: Final = 8  # realms that one ticket may be served in
SPILL_AFTER_S: Final = 5.0
SPILL_AFTER_MAX_S: Final = 3600.0
_NAME: Final = re.compile(r"[a-z0-9-]{1,32}")


@dataclass(frozen=True)
class Realm:
    """A realm: its name, the URL of its store, patterns of what belongs to it, and its spill-over to other realms."""

    name: str
    url: str
    labels: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    spill_to: tuple[str, ...] = ()  # realms that may serve its tickets, the preferred one first, after `spill_after_s`
    spill_after_s: float = SPILL_AFTER_S

    @property
    def prefix(self) -> str:
        """Return the prefix of its keys: a hash tag, so that all of them are in one hash slot of a cluster."""
        return prefix_of(self.name)

    @property
    def shown(self) -> str:
        """Return the URL of its store, without a password."""
        return mask_url(self.url)


class Rules:
    """The rules that say to which realm a label, a room or a node belongs. `version` changes when the rules do."""

    def __init__(self, realms: Iterable[Realm]) -> None:
        realms = tuple(realms)
        self._of: dict[Kind, list[tuple[list[str], str]]] = {
            kind: [(pattern.split("*"), realm.name) for realm in realms for pattern in getattr(realm, kind)]
            for kind in KINDS
        }
        text = repr([(realm.name, realm.labels, realm.rooms, realm.nodes, *_spill(realm)) for realm in realms])
        self.version = hashlib.sha256(text.encode()).hexdigest()[:12]

    def find(self, kind: Kind, text: str) -> str | None:
        """Return the name of the first realm with a pattern that fits the text; None when no pattern fits."""
        return next((name for parts, name in self._of[kind] if _fits(parts, text)), None)

    def has(self, kind: Kind) -> bool:
        """Return whether any realm has patterns of this kind."""
        return bool(self._of[kind])


def prefix_of(name: str) -> str:
    """Return the prefix of the keys of a realm."""
    return f"{{{name}}}:"


def tag_of(name: str) -> str:
    """Return the eight hex digits with which the ids made in this realm begin."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def stamped(hex_id: str, name: str) -> str:
    """Return the id, 32 hex digits, as a UUID of version 8 that begins with the tag of its realm.

    Ids of the default realm have no tag and are of version 4.
    """
    return f"{tag_of(name)}{hex_id[8:12]}8{hex_id[13:]}" if name else hex_id


def tag_in(hex_id: str) -> str:
    """Return the tag of the realm in an id, empty where it has none."""
    return hex_id[:8] if hex_id[12:13] == "8" else ""


def read_realms(path: Path, default_prefix: str = "") -> tuple[Realm, ...]:
    """Return the realms in the order of the file. Raises `StartRefused`, a sentence with file, entry and field.

    The default realm is among them only when the file has its spill-over. `default_prefix` is the prefix of its keys,
    which no other realm may have.
    """
    entries = read_toml(f"HUB_REALMS_FILE={path}", path, "realms")
    found: dict[str, Realm] = {}
    try:
        if len(entries) > REALMS_MAX:
            raise ValueError(f": it has {len(entries)} realms; at most {REALMS_MAX} are served")
        for number, entry in enumerate(entries, 1):
            try:
                realm = _realm(entry)
                _check_place(realm, [*found], default_prefix)
            except ValueError as error:
                raise ValueError(f", entry {number}: {error}") from None
            found[realm.name] = realm
        for number, realm in enumerate(found.values(), 1):
            for name in realm.spill_to:
                if name == realm.name or name not in (DEFAULT, *found):
                    raise ValueError(f", entry {number}: spill_to names {name}, which is no other realm")
    except ValueError as error:
        raise StartRefused(f"HUB_REALMS_FILE={path}{error}.") from None
    return tuple(found.values())


def read_name(value: Any) -> str:
    """Return the name of a realm; raises ValueError with the rule for names."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("must be 1 to 32 of a-z, 0-9 and -")
    return value


def read_others(value: Any) -> tuple[str, ...]:
    """Return the names of realms that may serve a ticket, each once; raises ValueError with the rule for them."""
    if not isinstance(value, list) or len(value) > SPILL_MAX:
        raise ValueError(f"must be a list of at most {SPILL_MAX} names of realms")
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in value):
        raise ValueError("must hold names of realms, of 1 to 32 of a-z, 0-9 and -")
    return tuple(dict.fromkeys(value))


def read_served(text: str) -> tuple[str, ...]:
    """Return names of realms (also `default`) from a text with commas, each once; raises ValueError."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError("is no list of realms: each has 1 to 32 of a-z, 0-9 and -")
    return names


def _check_place(realm: Realm, others: Sequence[str], default_prefix: str) -> None:
    if realm.name in others:
        raise ValueError(f"name is that of entry {others.index(realm.name) + 1} again")
    if realm.prefix == default_prefix and realm.name != DEFAULT:
        raise ValueError(f"its keys would begin with {realm.prefix} as those of the default realm do (HUB_KEY_PREFIX)")
    tags = {tag_of(name): name for name in others}
    if (other := tags.get(tag_of(realm.name))) is not None:
        raise ValueError(f"its ids would look like those of {other}; give it another name")


def _realm(entry: dict[str, Any]) -> Realm:
    of_default = entry.get("name") == DEFAULT
    for field in ("url", *KINDS) if of_default else ():
        if field in entry:
            raise ValueError(f"{DEFAULT}, the realm of HUB_REDIS_URL, has no {field} of its own here")
    fields = read_fields(entry, _READERS, "realm")
    for field in ("name",) if of_default else ("name", "url"):
        if field not in fields:
            raise ValueError(f"{field} is missing")
    return Realm(**{"url": "", **fields})


def _read_url(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be the URL of a Redis, such as redis://host:6379")
    try:
        return read_redis_url(value.strip())
    except BadSetting as error:
        why = str(error).rstrip(".").replace("HUB_REDIS_URL", "", 1)
        raise ValueError(why.lstrip() if why.startswith(" ") else f"is {why.lstrip('=')}") from None


def _read_patterns(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > PATTERNS_MAX:
        raise ValueError(f"must be a list of at most {PATTERNS_MAX} patterns")
    for each in value:
        if not isinstance(each, str) or not 1 <= len(each) <= PATTERN_MAX or not each.isprintable():
            raise ValueError(f"must hold patterns of 1 to {PATTERN_MAX} printable characters")
    return tuple(value)


def _read_after(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= SPILL_AFTER_MAX_S:
        raise ValueError(f"must be seconds, from 0 to {SPILL_AFTER_MAX_S:g}")
    return float(value)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "name": read_name, "url": _read_url, **dict.fromkeys(KINDS, _read_patterns), "spill_to": read_others,
    "spill_after_s": _read_after,
}  # fmt: skip


def _spill(realm: Realm) -> tuple[Any, ...]:
    """Return the spill-over for the version of the rules; empty without one, so that older versions stay the same."""
    return (realm.spill_to, realm.spill_after_s) if realm.spill_to else ()


def _fits(parts: list[str], text: str) -> bool:
    """Return whether the text is these parts in order, with any text between them. Each part is searched once."""
    first, *middle = parts
    if not middle:
        return text == first
    last = middle.pop()
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
