"""The settings that all hubs of a store must share, as values, as text to compare, and under their names. Pure."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from hub.capacity.labels import parse_caps
from hub.errors import BadInput, NotFound
from hub.settings import BadSetting, Settings
from hub.settings.model import knobs

# The members of `Shared` -> the fields of the settings, in the order in which hubs agree on them.
FIELDS: Final = {
    "timeout_ms": "node_timeout_s",
    "trailing": "borrow_trailing_fallback",
    "prefix": "borrow_prefix_expand",
    "wildcards": "borrow_wildcards",
    "default": "borrow_concurrency_default",
    "caps": "borrow_concurrency_caps",
    "grace_ms": "revoke_grace_s",
}


class Shared(NamedTuple):
    """The values of the shared settings: the node timeout, how labels are matched, the caps, and the grace of revoked
    leases.
    """

    timeout_ms: int
    trailing: bool
    prefix: bool
    wildcards: bool
    default: int
    caps: tuple[tuple[str, int], ...]
    grace_ms: int

    @staticmethod
    def of(settings: Settings) -> Shared:
        """Return the shared ones of the settings that a hub was started with."""
        return Shared(
            int(settings.node_timeout_s * 1000),
            settings.borrow_trailing_fallback,
            settings.borrow_prefix_expand,
            settings.borrow_wildcards,
            settings.borrow_concurrency_default,
            tuple(sorted(parse_caps(settings.borrow_concurrency_caps).items())),
            int(settings.revoke_grace_s * 1000),
        )

    @staticmethod
    def read(text: str) -> Shared:
        """Return the shared settings from JSON that the property `text` made."""
        return Shared(**{name: _plain(value) for name, value in orjson.loads(text).items()})

    @property
    def text(self) -> str:
        """Return the settings as JSON; equal settings give equal text."""
        return orjson.dumps(self._asdict()).decode()

    def over(self, values: dict[str, Any]) -> Shared:
        """Return these settings with the members in `values` replaced."""
        return self._replace(**{name: _plain(value) for name, value in values.items()})

    def named(self) -> dict[str, str]:
        """Return each value as it is written in the environment, under the name of its setting."""
        shown = (
            f"{self.timeout_ms / 1000:g}", *(str(flag).lower() for flag in self[1:4]), str(self.default),
            ",".join(f"{label}={cap}" for label, cap in self.caps), f"{self.grace_ms / 1000:g}",
        )  # fmt: skip
        return dict(zip(names(), shown, strict=True))

    def differences(self, other: Shared) -> dict[str, tuple[str, str]]:
        """Return the settings that differ: name -> (value here, value in `other`)."""
        here, there = self.named(), other.named()
        return {name: (here[name], there[name]) for name in here if here[name] != there[name]}


def names() -> dict[str, str]:
    """Return, for each shared setting, its name in the environment -> its member of `Shared`."""
    return {knobs()[field].name: member for member, field in FIELDS.items()}


def member(name: str) -> str:
    """Return the member of `Shared` for the name of a setting; raises `NotFound` for one that hubs do not share."""
    if name not in names():
        raise NotFound(f"{name[:80]} is none of the settings that all hubs share: {', '.join(names())}.")
    return names()[name]


def value_of(name: str, text: str) -> str:
    """Return a value of a setting, written as in the environment, as JSON; raises `BadInput` for a value that the
    setting cannot have.
    """
    field = FIELDS[member(name)]
    knob = knobs()[field]
    try:
        value, beyond = knob.value(text)
    except BadSetting as error:
        raise BadInput(error.detail) from None
    if beyond:
        raise BadInput(f"{name}={text[:80]!r} is out of its bounds{knob.bounds()}.")
    return orjson.dumps(getattr(Shared.of(Settings().model_copy(update={field: value})), member(name))).decode()


def _plain(value: Any) -> Any:
    """Return a value read from JSON with its lists (the caps) made tuples, as `Shared` has them."""
    return tuple((label, cap) for label, cap in value) if isinstance(value, (list, tuple)) else value
