"""The bodies and answers of teams: what each is to have of pools, and what it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, NotRequired

from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.body import Body
from hub.api.shapes.fields import doc
from hub.api.shapes.operator_bodies import By
from hub.api.shapes.readers import Member, reading_with
from hub.teams.models import (
    COUNT_MAX,
    PATTERN_MAX,
    WEIGHT_MAX,
    WEIGHT_MIN,
    read_ceiling,
    read_guarantee,
    read_pattern,
    read_weight,
)

_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": COUNT_MAX}


class TeamBody(Body):
    """What a team is to have of the pools that fit a pattern."""

    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {"label": ("label", "labelKey")}
    missing: ClassVar[Mapping[str, tuple[str, str]]] = {
        "label": ("missing label: the pattern of pools, such as gpu:*", "label")
    }
    label: Annotated[
        str,
        Member(reading_with(read_pattern), type="string", minLength=1, maxLength=PATTERN_MAX),
        doc("The pattern of pools; `*` stands for any text.", "gpu:*"),
    ]
    guarantee: Annotated[
        int, Member(reading_with(read_guarantee), **_COUNT), doc("How many slots it may always have.", 4)
    ] = 0
    ceiling: Annotated[
        int | None,
        Member(reading_with(read_ceiling), **_COUNT),
        doc("How many it has at most; without it, or with null, as many as there are.", 8),
    ] = None
    weight: Annotated[
        float,
        Member(reading_with(read_weight), type="number", minimum=WEIGHT_MIN, maximum=WEIGHT_MAX),
        doc("How much it counts, compared with other teams.", 2),
    ] = 1
    by: By = ""


Team = Annotated[str, doc("The team; empty: those who borrow with a shared secret.", "ml")]
Pattern = Annotated[str, doc("The pattern of pools. The rows of the longest that fits a pool count there.", "gpu:*")]
Warned = Annotated[
    str,
    doc(
        "Why the guarantees cannot all be kept.",
        "the guarantees under gpu:* are 12 slots together, and 8 are published",
    ),
]


class TeamRowShape(TypedDict):
    """What a team is to have of the pools that fit a pattern."""

    team: Team
    label: Pattern
    guarantee: Annotated[int, doc("How many slots it may always have.", 4, ge=0)]
    ceiling: Annotated[int | None, doc("How many it has at most; null: no ceiling.", 8)]
    weight: Annotated[float, doc("How much it counts, compared with other teams.", 2)]
    setBy: Annotated[str, doc("Who set it; `file`: HUB_TEAMS_FILE.", "ann")]
    setAtUtc: Annotated[str, doc("When.", w.TIME, json_schema_extra=w.DATE_TIME)]
    warning: NotRequired[Warned]


class TeamShape(TypedDict):
    """What a team is to have of the pools that fit a pattern, and what it has. Members of its row are null for a team
    that has none."""

    team: Team
    label: Pattern
    guarantee: Annotated[int | None, doc("How many slots it may always have.", 4)]
    ceiling: Annotated[int | None, doc("How many it has at most; null: no ceiling.", 8)]
    weight: Annotated[float | None, doc("How much it counts, compared with other teams.", 2)]
    held: Annotated[int, doc("How many slots it has.", 3, ge=0)]
    due: Annotated[float, doc("How many of the published slots it is entitled to, if all teams want more.", 5.3)]
    waiting: Annotated[int, doc("How many of its borrows wait; one of several slots counts once.", 1, ge=0)]
    recalled: Annotated[int, doc("How many of its leases are recalled for other teams.", 0, ge=0)]
    share: Annotated[
        float | None,
        doc("The team with the least is next: held by weight, below 0 under its guarantee; null at its ceiling.", 1.5),
    ]
    setBy: Annotated[str | None, doc("Who set its row; `file`: HUB_TEAMS_FILE.", "ann")]
    setAtUtc: Annotated[str | None, doc("When.", w.TIME, json_schema_extra=w.DATE_TIME)]


class TeamsShape(TypedDict):
    """The teams that share pools."""

    teams: Annotated[
        list[TeamShape],
        doc("The rows, the longest pattern first, and the teams without one that hold or wait there.", []),
    ]
    warnings: Annotated[list[str], doc("Which guarantees cannot all be kept, and why.", [])]


class TeamRemovedShape(TypedDict):
    """The confirmation that a team has no row for a pattern."""

    removed: Annotated[str, doc("The team.", "ml")]
    label: Annotated[str, doc("The pattern of pools.", "gpu:*")]
