"""The bodies of calls about bundles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from hub.api.shapes import neutral
from hub.api.shapes.body import Body
from hub.api.shapes.fields import doc
from hub.api.shapes.lease_bodies import TermsBody, TtlIsDefault, Where, ttl
from hub.api.shapes.readers import LABEL, Flag, Member, whole
from hub.capacity.wishes import SLOTS_MAX
from hub.errors import HubError, InvalidValue, MissingMember

_MISSING = "missing parts: name at least one, as {label, where, count}"


class PartBody(Body):
    """One part of a bundle."""

    missing = {"labelKey": ("missing label", "parts")}
    label_key: Annotated[str, LABEL]
    where: Where = ""
    count: Annotated[int, whole(1, SLOTS_MAX), doc("How many such slots.", 2)] = 1


@contextmanager
def of_part(number: int) -> Iterator[None]:
    """Say in a refusal within the block which part it is about; `number` is from 0, as the fact `part` is."""
    try:
        yield
    except HubError as error:
        said = f"part {number + 1}: {error}"
        raise type(error)(said, error.retry_after_s, **error.facts, part=number) from None


def _parts(value: Any, name: str) -> list[PartBody]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InvalidValue(f"{name} must be a list of objects with label, where and count", member=name)
    if not value:
        raise MissingMember(_MISSING, member=name)
    parts = []
    for number, each in enumerate(value[: SLOTS_MAX + 1]):
        with of_part(number):
            parts.append(PartBody.read(neutral.in_old_names(each)))
    if sum(part.count for part in parts) > SLOTS_MAX:
        raise InvalidValue(f"{name} want more than {SLOTS_MAX} slots, the most that a bundle may have", member=name)
    return parts


class BundleBody(TermsBody):
    """A borrow of several slots at once: its parts, and the terms of all its leases."""

    missing = {"parts": (_MISSING, "parts")}
    parts: Annotated[
        list[PartBody],
        Member(_parts, type="array", minItems=1, maxItems=SLOTS_MAX, items=PartBody),
        doc(f"What it takes, all of it or nothing: {SLOTS_MAX} slots at most.", [{"label": "gpu:a100", "count": 2}]),
    ]
    same_node: Annotated[Flag, doc("All slots are to be on one node.", False)] = False
    together: Annotated[Flag, doc("One slot that is lost ends the leases of the others.", False)] = False
    wait_for_pool: Annotated[Flag, doc("It may wait also where fewer slots are published than it wants.", False)] = (
        False
    )


class BundleRenewBody(Body):
    """The length for which the leases of a bundle are extended."""

    optional = True
    ttl_seconds: Annotated[
        float | None, Member(ttl, type="number"), doc("For how many seconds; as long as by default unless told.", 60)
    ] = None
    ttl_is_default: TtlIsDefault = False
