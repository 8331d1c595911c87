"""The neutral names of members (such as `slotId`), beside the names of a hub that lends browsers (`browserId`), and the
reading of bodies with neutral names.

A caller asks for answers in neutral names with `/v2` before the path, or with the header
`Accept: application/vnd.capacity-hub+json`; all other answers keep the old names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic.alias_generators import to_camel

from hub.capacity.models import MEMBERS_OF_SLOTS
from hub.errors import BadInput, HubError, InvalidLabel, InvalidValue

MEDIA_TYPE: Final = "application/vnd.capacity-hub+json"
CONTENT_TYPE: Final = MEDIA_TYPE.encode()
NEUTRAL: Final = "hub.neutral"
"""The key in the scope of a call that asks for neutral names; the value is the `NeutralNames` of the operation."""
BEFORE: Final = "hub.before"
"""The key in the scope of a call with a prefix before its path that asks for neutral names; the value is the prefix."""
MEMBERS: Final = "hub.members"
"""The key in the scope of every call that was let in; the value is the `NeutralNames` of the operation."""
NAMES: Final[Mapping[str, str]] = {
    "browserId": "slotId",
    "labelKey": "label",
    "matchedLabel": "pool",
    "poolLabel": "pool",
    "webSocketEndpoint": "address",
    "browserType": "kind",
    "item": "attributes",
    "sessions": "leases",
    "browserVersion": "version",
    "totalBrowsers": "totalSlots",
    "playwrightVersion": "runtimeVersion",
    "playwrightVersionExpected": "runtimeVersionExpected",
    "playwrightVersionMismatch": "runtimeVersionMismatch",
    "atUtc": "at",
    "borrowedAtUtc": "borrowedAt",
    "createdAtUtc": "createdAt",
    "deletedUtc": "deletedAt",
    "endedUtc": "endedAt",
    "lastBeatUtc": "lastBeatAt",
    "lastSeenUtc": "lastSeen",
    "lastUtc": "lastAt",
    "madeUtc": "madeAt",
    "nextUtc": "nextAt",
    "notBeforeUtc": "notBefore",
    "registeredUtc": "registeredAt",
    "releasedAtUtc": "releasedAt",
    "seenUtc": "seenAt",
    "setAtUtc": "setAt",
    "sinceUtc": "since",
    "startedUtc": "startedAt",
    "submittedUtc": "submittedAt",
    "timestampUtc": "timestamp",
    "validUntilUtc": "validUntil",
}
"""Neutral names by old names. Members that are not listed have the same name, in camelCase."""
LEASE: Final = {"leaseToken": "token", "ttlSeconds": "ttlSeconds", "expiresAtUtc": "expiresAt"}
"""Members that stand together in `lease`, by their old names. `ttlSeconds` does so only beside `expiresAtUtc`."""
OF_SLOTS: Final = {"webSocketEndpoint": "address", "browserType": "kind", "browserVersion": "version"}
"""Neutral names of members of a published slot, which count when the slot has `label`."""
MEMBERS_OF_LEASES: Final = frozenset(
    ("nodeId", "browserId", "slotId", "labelKey", "label", "webSocketEndpoint", "browserType")
)
"""Members of a slot that its lease has beside `attributes`."""

_NAMED: Final = {"labelKey": "label", "browserId": "slotId", "leaseToken": "lease.token"}
_OLD: Final = re.compile(rf"\b({'|'.join(_NAMED)})\b")  # in refusals of a member
_NO_BROWSER: Final = "No browser available for"


class NamesDiffer(HubError):
    """The refusal of a body that has a member under its old and its neutral name, with two different values."""

    code = "names-differ"
    status = 422


class UnknownMember(BadInput):
    """The refusal of a body with a member that its operation does not have, to a caller that asks for neutral names."""

    code = "unknown-member"


def name_of(name: str) -> str:
    """Return the neutral name of a member: `slotId` for `browserId`, else the same name in camelCase."""
    return NAMES.get(name) or (to_camel(name) if "_" in name else name)


def renamed(document: Mapping[str, object]) -> dict[str, Any]:
    """Return a document with the names of its own members made neutral; the values stay as they are."""
    return {name_of(name): value for name, value in document.items()}


def problem(document: Mapping[str, object]) -> dict[str, Any]:
    """Return a refusal in neutral names. It speaks of slots where the text for published clients speaks of browsers."""
    document, detail = renamed(document), str(document.get("detail"))
    code = document.get("code")
    if ("member" in document and code != NamesDiffer.code) or code == InvalidLabel.code:
        for name in {"detail", "member"} & document.keys():
            document[name] = _OLD.sub(lambda found: _NAMED[found[0]], str(document[name]))
    if detail.startswith(_NO_BROWSER):
        document["detail"] = f"No slot available for{detail.removeprefix(_NO_BROWSER)}"
    return document


def in_old_names(document: dict[str, Any]) -> dict[str, Any]:
    """Return a body with the old name of each member.

    Raises `NamesDiffer` when a member has different values under its old and its neutral name, and `InvalidValue` for a
    `lease` without a token: read as none, it would take away the fence of a caller that meant to have one.
    """
    if "label" in document:
        document = _either(document, "labelKey", "label", document["label"])
    if "slotId" in document:
        document = _either(document, "browserId", "slotId", document["slotId"])
    if "lease" in document:
        lease = document["lease"]
        token = lease.get("token") if isinstance(lease, dict) else None
        if token in (None, ""):
            raise InvalidValue('lease must be as a borrow answers it, such as {"token": "7"}', member="lease")
        document = _either(document, "leaseToken", "lease.token", token)
    return document


def _either(document: dict[str, Any], old: str, new: str, value: Any) -> dict[str, Any]:
    known = document.get(old)
    if known is not None and value is not None and known != value:
        raise NamesDiffer(f"{old} and {new} are the same, and have two values here; say one of them", member=old)
    return document if value is None else {**document, old: value}


def slot_in_old_names(slot: dict[str, Any]) -> dict[str, Any]:
    """Return a published slot in the old names, with the members of its `attributes` as members of its own, but those
    named like a member of slots, which stay there."""
    if "label" not in slot or "labelKey" in slot:
        return slot
    renamed = dict(slot)
    attributes = renamed.pop("attributes", None)
    for old, new in OF_SLOTS.items():
        if new in renamed and old not in renamed:
            renamed[old] = renamed.pop(new)
    if not isinstance(attributes, dict):
        return renamed
    apart = {name: value for name, value in attributes.items() if name in MEMBERS_OF_SLOTS}
    beside = {name: value for name, value in attributes.items() if name not in MEMBERS_OF_SLOTS}
    return {**beside, **renamed, **({"attributes": apart} if apart else {})}


def attributes(item: Any) -> Any:
    """Return the attributes of a slot: the members that its node gave a value, without those that the lease has
    already. Those that it published in the old names, as the member `attributes`, are among them."""
    if not isinstance(item, dict):
        return item
    own = item.get("attributes")
    found = {
        ("version" if name == "browserVersion" else name): value
        for name, value in item.items()
        if name not in MEMBERS_OF_LEASES and name != "attributes" and value not in (None, {})
    }
    own = own if isinstance(own, dict) else {} if own is None else {"attributes": own}
    return {name: value for name, value in own.items() if value not in (None, {})} | found
