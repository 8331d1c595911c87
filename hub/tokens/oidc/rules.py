"""The rules of `HUB_OIDC_RULES_FILE`, which turn claims of the issuer into the rights of a user.

    [[rules]]
    when = { groups = ["gpu-*", "admins"], email_verified = true }
    user = "email"
    team = "ml"
    role = "operator"
    scopes = ["read", "submit"]
    labels = ["gpu:*"]
    max_priority = 10

All conditions of a rule must hold, and one of the values of each. The first rule of the file that fits decides. In a
text `*` stands for any text; a dot in the name of a claim leads into an object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from hub.errors import Forbidden, StartRefused
from hub.settings.toml import read_fields, read_toml
from hub.tokens.logins import ROLES
from hub.tokens.models import (
    TEAM_MAX,
    Holder,
    read_labels,
    read_name,
    read_priority,
    read_rooms,
    read_scopes,
    read_team,
    user_of,
)

RULES_MAX: Final = 1000
SUB_MAX: Final = 255
_NAMES: Final = ("preferred_username", "email", "sub")  # claims that name a user, where a rule names none
Claims = Mapping[str, Any]
Role = Literal["", "viewer", "operator", "admin"]


@dataclass(frozen=True)
class Identity:
    """A user of the issuer: its rights as the holder of a token, and its role in the console, "" for none."""

    holder: Holder
    issuer: str
    role: Role = ""

    @property
    def title(self) -> str:
        """Return the name of the credential for the audit log."""
        return f"login of {self.holder.name} at {self.issuer}"


@dataclass(frozen=True)
class ClaimRule:
    """A rule: the conditions that claims must fulfil, and the rights that it gives."""

    when: dict[str, tuple[Any, ...]]
    user: str = ""
    team: str = ""
    team_claim: str = ""
    role: Role = ""
    scopes: frozenset[str] = frozenset()
    rooms: frozenset[str] = frozenset()
    labels: tuple[str, ...] = ()
    max_priority: int | None = None

    def fits(self, claims: Claims) -> bool:
        """Return whether all conditions hold for these claims."""
        return all(
            any(_is_like(wanted, value) for wanted in some for value in _values(claims, name))
            for name, some in self.when.items()
        )


class ClaimRules:
    """The rules of a file, for users of one issuer."""

    def __init__(self, path: Path, issuer: str) -> None:
        self._rules, self._issuer = read_rules(path), issuer
        named = {name for rule in self._rules for name in (*rule.when, rule.user, rule.team_claim) if name}
        self._read = {*_NAMES, *named, *(name.partition(".")[0] for name in named)}

    def identity(self, claims: Claims) -> Identity:
        """Return the user with these claims; raises `Forbidden` when no rule fits them."""
        sub = claims.get("sub")
        if not isinstance(sub, str) or not 0 < len(sub) <= SUB_MAX:
            raise Forbidden("The token of the issuer names no user: it has no claim sub.")
        rule = next((rule for rule in self._rules if rule.fits(claims)), None)
        if rule is None:
            name = next(_named(claims, _NAMES), "this user")
            raise Forbidden(f"No rule of this hub (HUB_OIDC_RULES_FILE) fits {name} of {self._issuer}.")
        name = next(_named(claims, (rule.user, *_NAMES) if rule.user else _NAMES), user_of(sub))
        # No token of the hub has such an id: the name of a user has no line breaks.
        user = user_of(f"oidc\n{self._issuer}\n{sub}")
        holder = Holder(
            name, user, rule.role == "admin", scopes=rule.scopes, rooms=rule.rooms, labels=rule.labels,
            team=rule.team or next(_named(claims, (rule.team_claim,)), "")[:TEAM_MAX], max_priority=rule.max_priority,
        )  # fmt: skip
        return Identity(holder, self._issuer, rule.role)

    def kept(self, claims: Claims) -> dict[str, Any]:
        """Return the claims that the rules read."""
        return {name: value for name, value in claims.items() if name in self._read}


def _values(claims: Claims, name: str) -> list[Any]:
    """Return the values of a claim: the items of a list, or the one value; none for a claim that is not there."""
    found: Any = claims.get(name)
    if found is None and "." in name:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    return found if isinstance(found, list) else [] if found is None else [found]


def _is_like(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, str) and isinstance(value, str):
        return re.fullmatch(".*".join(map(re.escape, wanted.split("*"))), value, re.DOTALL) is not None
    return type(wanted) is type(value) and bool(wanted == value)


def _named(claims: Claims, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the values of these claims that can be the name of a user or a team."""
    for name in names:
        for value in _values(claims, name)[:1]:
            try:
                yield read_name(value)
            except ValueError:
                continue


def _read_when(value: Any) -> dict[str, tuple[Any, ...]]:
    if not isinstance(value, dict):
        raise ValueError('must be a table of claims, such as { groups = ["ml"] }; {} stands for every user')
    found = {name: tuple(each) if isinstance(each, list) else (each,) for name, each in value.items()}
    if not all(some and all(isinstance(each, str | bool | int) for each in some) for some in found.values()):
        raise ValueError("takes a text, a number, true or false for a claim, or a list of them")
    return found


def _read_role(value: Any) -> str:
    if value not in ROLES:
        raise ValueError(f"must be one of {', '.join(ROLES)}; leave it out for users who have no console")
    return str(value)


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "when": _read_when, "user": read_name, "team": read_team, "team_claim": read_name, "role": _read_role,
    "scopes": read_scopes, "rooms": read_rooms, "labels": read_labels, "max_priority": read_priority,
}  # fmt: skip


def read_rules(path: Path) -> list[ClaimRule]:
    """Return the rules of a file; raises `StartRefused`, whose sentence names the file, the line and the field."""
    where, found = f"HUB_OIDC_RULES_FILE={path}", []
    entries = read_toml(where, path, "rules")
    if not 1 <= len(entries) <= RULES_MAX:
        raise StartRefused(f"{where} has {len(entries)} rules: it must have 1 to {RULES_MAX} [[rules]].")
    for number, entry in enumerate(entries):
        try:
            fields = read_fields(entry, _FIELDS, "rule")
            if "when" not in fields:
                raise ValueError("when is missing: {} stands for every user of the issuer")
            if "team" in fields and "team_claim" in fields:
                raise ValueError("team_claim stands beside team: give one of them")
            found.append(ClaimRule(**fields))
        except ValueError as error:
            line = _line(path.read_text("utf-8-sig"), number, str(error))
            raise StartRefused(f"{where}, line {line}: {error}.") from None
    return found


def _line(text: str, number: int, why: str) -> int:
    """Return the line in which a fault of an entry stands: that of the field that the sentence begins with, if it can
    be found, else the first line of the entry."""
    lines = list(enumerate(text.splitlines(), 1))
    starts = [at for at, line in lines if re.match(r"\s*\[\[\s*[\"']?rules[\"']?\s*\]\]", line)]
    if number >= len(starts):
        return 1
    end = starts[number + 1] if number + 1 < len(starts) else len(lines) + 1
    field = re.escape(why.split(" ", 1)[0].strip("'"))
    named = re.compile(rf"\s*(\[\s*rules\.)?[\"']?{field}\b")
    return next((at for at, line in lines[starts[number] : end - 1] if named.match(line)), starts[number])
