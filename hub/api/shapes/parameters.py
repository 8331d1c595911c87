"""The parameters in paths, queries and headers, each with its sentence and its example in the contract."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from hub.api.shapes import fields as w

PAGE_MAX: Final = 1000
_TEXT: Final[dict[str, Any]] = {"type": "string"}


class Parameter(NamedTuple):
    """A parameter of an operation: its name, its description, an example, its schema, and where it stands."""

    name: str
    about: str
    example: Any
    schema: dict[str, Any] = _TEXT
    place: str = "query"
    required: bool = False


def _whole(low: int, high: int, default: int | None = None) -> dict[str, Any]:
    more = {} if default is None else {"default": default}
    return {"type": "integer", "minimum": low, "maximum": high, **more}


def _uuid(name: str, about: str, example: str) -> Parameter:
    return Parameter(name, about, example, {"type": "string", "format": "uuid"}, "path", True)


def _part(name: str, about: str, example: str) -> Parameter:
    return Parameter(name, about, example, _TEXT, "path", True)


PATH: Final = {
    each.name: each
    for each in (
        _part("node_id", "The id of the node.", w.NODE),
        _part("slot_id", "The id of the slot.", w.SLOT),
        _part("slot", "The id of the slot.", w.SLOT),
        _part("bundle", "The id of the bundle.", w.BUNDLE),
        _part("ticket", "The `Idempotency-Key` of the borrow, or the id of its ticket.", "nightly-42-gpu"),
        _part("label", "The label, two to eight segments; slashes in it are part of it.", w.LABEL),
        _part("pattern", "The pattern of pool labels; `*` stands for any text.", "gpu:*"),
        _part("team", "The name of the team.", "ml"),
        _part("kind", "What kind of thing it is.", "slot"),
        _part("id", "Its id.", w.SLOT),
        _part("hook", "The id of the hook.", "3b0c44298fc1c149"),
        _part("room_id", "The room.", "lab"),
        _part("schedule", "The name of the schedule: letters, digits, hyphens, dots, underscores.", "nightly"),
        _part("job_name", "The full name of the job: room:category:name.", w.JOB),
        _part("name", "The full name of the provider: room:category:name.", "lab:files:disk"),
        _uuid("task_id", "The id of the task.", w.TASK),
        _uuid("worker_id", "The id of the worker.", w.WORKER),
        _uuid("provider_id", "The id of the provider.", w.TASK),
    )
}

OFFSET: Final = Parameter("offset", "How many are left out at the top.", 0, _whole(0, 10**9, 0))
LIMIT: Final = Parameter("limit", "How many are answered at most.", 100, _whole(1, PAGE_MAX, 100))
WHY_LIMIT: Final = Parameter(
    "limit", "How many events of its history are answered at most.", 50, _whole(1, PAGE_MAX, 50)
)
OF_LABEL: Final = Parameter("label", "Only what was asked for under this label.", "gpu:a100")
OF_PATTERN: Final = Parameter("label", "The pattern of pools; `*` stands for any text.", "gpu:*", required=True)
OF_POOL: Final = Parameter("pool", "Only slots of this pool.", w.LABEL)
OF_NODE: Final = Parameter("node", "Only slots of this node.", w.NODE)
OF_RUN: Final = Parameter("run", "Only leases of this run.", w.RUN)
FENCE: Final = Parameter("token", "The fencing token that is compared.", w.TOKEN, required=True)
DETAIL: Final = Parameter("detail", "`1` for a page of nodes instead of all ids.", "1")
CURSOR: Final = Parameter("cursor", "The `next` of the page before.", "0", {"type": "string", "default": "0"})
STATE: Final = Parameter(
    "state", "Only nodes of this state.", "alive", {"type": "string", "enum": ["alive", "suspect", "stale"]}
)
ONLY_FREE: Final = Parameter("onlyFree", "`1` refuses to withdraw a slot that is lent.", "1")
REASON: Final = Parameter("reason", "Why, for the holder of the lease that ends.", "profile could not be wiped")
INCARNATION: Final = Parameter("incarnation", "Which process of the node calls.", "c0ffee01")
NUMBER: Final = Parameter("number", "Of this call; rises with each call of the incarnation.", 7, _whole(0, 2**53))
WHERE: Final = Parameter("where", "Only slots that are so, and what waits for such.", "vram >= 40")
HEADROOM: Final = Parameter("headroom", "How many slots should be to spare.", 1, _whole(0, 10**6, 0))
MIN: Final = Parameter("min", "The fewest slots there should be.", 0, _whole(0, 10**6, 0))
MAX: Final = Parameter("max", "The most slots there should be.", 40, _whole(0, 10**6, 10**6))
TICKETS: Final = Parameter("tickets", "How many tickets of each label are shown.", 20, _whole(0, 1000, 20))
OF_BRAKE: Final = Parameter(
    "of", "Whose brake.", "nodes", {"type": "string", "enum": ["nodes", "workers"], "default": "nodes"}
)
SEARCH: Final = Parameter(
    "q", "Only what contains this text, in upper or lower case.", "rack-7", {"type": "string", "maxLength": 200}
)
SKIP: Final = Parameter("skip", "How many entries are left out at the top.", 0, _whole(0, 10**9, 0))
TAKE: Final = Parameter("take", "How many entries are answered at most.", 100, _whole(1, 10**9, 100))
CATEGORY: Final = Parameter("category", "Only entries of this category.", "admin")
ACTION: Final = Parameter("action", "Only entries of this action.", "node.drain")
SINCE: Final = Parameter(
    "sinceUtc", "Only entries since then; a + of an offset is written %2B.", "2026-01-02T03:04:05Z"
)
USAGE_BY: Final = Parameter(
    "by", "What the figures are of.", "user",
    {"type": "string", "enum": ["user", "team", "label", "slot", "node"], "default": "user"},
)  # fmt: skip
USAGE_SINCE: Final = Parameter(
    "since", "The first day, in UTC: a date, or how many days ago.", "30d", {"type": "string", "default": "30d"}
)
USAGE_UNTIL: Final = Parameter("until", "The last day, in the same form; without it, today.", "2026-02-01")
SINCE_VERSION: Final = Parameter("since", "The version that the node knows.", 7, _whole(0, 2**53, 0))
RUN_QUERY: Final = Parameter("runId", "The run, where no header `x-run-id` names it.", w.RUN)
AFTER: Final = Parameter(
    "after", "The id of the event to go on after, where no `Last-Event-ID` says it.", "1750000000000-0"
)
KINDS: Final = Parameter("kind", "Only events of these kinds, separated by commas.", "grant,node")
EVENTS_OF: Final = (
    KINDS,
    Parameter("node", "Only events about this node.", w.NODE),
    Parameter("slot", "Only events about this slot.", w.SLOT),
    Parameter("pool", "Only events about this pool.", w.LABEL),
    Parameter("label", "Only events about this label.", "gpu:a100"),
    Parameter("run", "Only events about this run.", w.RUN),
    Parameter("ticket", "Only events about this ticket.", "key-5f0c0ffee"),
    Parameter("worker", "Only events about this worker.", w.WORKER),
    Parameter("task", "Only events about this task.", w.TASK),
    Parameter("job", "Only events about this job.", w.JOB),
    Parameter("schedule", "Only events about this schedule, named with its room.", "lab:nightly"),
)

KEY: Final = Parameter(
    "Idempotency-Key",
    "Names the call: a repeat with the same key changes nothing and is answered alike.",
    "nightly-42-gpu",
    {"type": "string", "minLength": 1, "maxLength": 255},
    "header",
)
PREFER: Final = Parameter(
    "Prefer", "`wait=N` lets the answer wait up to N seconds for what is asked for.", "wait=20", place="header"
)
RUN_HEADER: Final = Parameter(
    "x-run-id", "The run that the call belongs to.", w.RUN, {"type": "string", "maxLength": 200}, "header"
)
CORRELATION: Final = Parameter(
    "Correlation-Id", "The run, where no `x-run-id` names it.", w.RUN, {"type": "string", "maxLength": 200}, "header"
)
RUN: Final = (RUN_HEADER, RUN_QUERY, CORRELATION)
LAST_EVENT: Final = Parameter(
    "Last-Event-ID", "The id of the last event that was seen.", "1750000000000-0", place="header"
)
HASH: Final = Parameter(
    "X-Request-Hash",
    "Which request this answers, as the provider was asked.",
    "9f86d081884c7d65",
    place="header",
    required=True,
)
