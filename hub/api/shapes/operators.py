"""The shapes of answers to operators, and to those who look at the hub itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.fields import doc
from hub.api.shapes.nodes import NodeOfPoolsShape
from hub.history.explained import Kind


class SwitchedShape(TypedDict):
    """A node that was drained, cordoned, or opened again."""

    nodeId: w.NodeId
    draining: Annotated[bool, doc("Whether it drains.", True)]
    cordoned: NotRequired[Annotated[bool, doc("It is cordoned; left out when it is not.", True)]]
    reason: NotRequired[Annotated[str, doc("Why it is cordoned.", "fan is broken")]]
    heldBack: w.HeldBack
    lent: w.Lent
    deadlineSecondsLeft: w.DeadlineLeft


class UpgradingShape(TypedDict):
    """The nodes that were asked to rebuild their slots."""

    scheduled: Annotated[int, doc("How many.", 1, ge=0)]
    targets: Annotated[list[str], doc("Which.", [w.NODE])]


class BrakeShape(TypedDict):
    """The brake, which keeps the sweeper from removing very many nodes, or workers, at once."""

    state: Annotated[Literal["off", "engaged", "released"], doc("Whether it holds any back.", "off")]
    percent: Annotated[float, doc("It engages when more than so many percent are silent.", 30)]
    minimum: Annotated[int, doc("And at least so many.", 5)]
    stale: Annotated[int | None, doc("How many were silent at the last look; null before the first.", 0)]
    registered: Annotated[int | None, doc("Of how many.", 40)]
    perInterval: Annotated[int | None, doc("How many may go in each pass while it is engaged.", 2)]
    heldBack: Annotated[int | None, doc("How many it holds back.", 0)]
    graceSecondsLeft: Annotated[int | None, doc("Seconds in which none goes at all.", 20)]
    why: Annotated[str | None, doc("Why none goes now.", "All of them are silent at once.")]
    sinceUtc: Annotated[str | None, doc("Since when it is engaged.", w.TIME, json_schema_extra=w.DATE_TIME)]
    seenUtc: Annotated[str | None, doc("When it was looked at last.", w.TIME, json_schema_extra=w.DATE_TIME)]
    releasedBy: Annotated[str | None, doc("Who released it.", "ann")]
    releasedAtUtc: Annotated[str | None, doc("When that was.", w.TIME, json_schema_extra=w.DATE_TIME)]


class SweeperShape(TypedDict):
    """The switch of expiry, and who has set it."""

    expire: Annotated[bool, doc("Whether they do.", True)]
    source: w.Source
    setBy: w.SetBy
    setAtUtc: Annotated[str | None, doc("When it was switched at run time.", w.TIME, json_schema_extra=w.DATE_TIME)]
    setting: Annotated[bool, doc("What the setting of this hub says.", False)]
    brake: Annotated[BrakeShape, doc("The brake on nodes.", None)]


class NodesSweptShape(TypedDict):
    """The counts of a pass over the nodes."""

    scanned: Annotated[int, doc("How many are registered.", 40, ge=0)]
    stale: Annotated[int, doc("How many are silent for the whole timeout.", 1, ge=0)]
    expired: Annotated[int, doc("How many were removed.", 1, ge=0)]
    refreshed: Annotated[int, doc("How many were kept because they were heard again.", 0, ge=0)]
    heldBack: Annotated[int, doc("How many the brake held back.", 0, ge=0)]
    errors: w.Errors
    elapsedMs: w.ElapsedMs
    names: Annotated[list[str], doc("Which were removed, or would be.", [w.NODE])]


class LeasesSweptShape(TypedDict):
    """The counts of a pass over the leases."""

    processed: Annotated[int, doc("How many were looked at.", 12, ge=0)]
    returned: Annotated[int, doc("How many lapsed.", 1, ge=0)]
    drained: Annotated[int, doc("How many ended with the deadline of a drain.", 0, ge=0)]
    errors: w.Errors
    elapsedMs: w.ElapsedMs


class SweptShape(TypedDict):
    """The counts of one pass of both sweepers."""

    dryRun: Annotated[bool, doc("It only says what it would do.", False)]
    expire: Annotated[bool, doc("Whether nodes expire.", True)]
    brake: Annotated[str, doc("What the brake did.", "off")]
    nodes: Annotated[NodesSweptShape, doc("The nodes.", None)]
    leases: Annotated[LeasesSweptShape, doc("The leases.", None)]


class AuditEntryShape(TypedDict):
    """An entry of the audit log: a change and its author."""

    timestampUtc: w.Utc
    category: Annotated[str, doc("What it concerns.", "admin")]
    action: Annotated[str, doc("What was done.", "node.drain")]
    actor: Annotated[str | None, doc("The name that the caller gave.", "ann")]
    by: Annotated[str | None, doc("The secret or token that the caller showed.", "admin secret")]
    remoteIp: Annotated[str | None, doc("Where the call came from.", "10.0.0.3")]
    correlationId: Annotated[str | None, doc("The run it belongs to.", w.RUN)]
    severity: Annotated[str, doc("`Info` or `Warning`.", "Info")]
    details: Annotated[dict[str, str], doc("The facts, as text.", {"nodeId": w.NODE})]


class CapShape(TypedDict):
    """The cap of a label."""

    labelKey: w.Label
    cap: Annotated[int, doc("Most leases in flight under it; 0 for no limit.", 4, ge=0)]
    source: Annotated[
        str,
        doc(
            "Who says so: `default`, the environment, run time; `served`: it counts what is served.",
            "run-time",
        ),
    ]
    inFlight: Annotated[int | None, doc("How many leases under it are live; null for `*`.", 2)]
    waiting: Annotated[int | None, doc("How many wait for it; null for `*`.", 0)]
    hint: NotRequired[Annotated[str, doc("What is odd about it.", "no pool serves gpu:b, and nothing waits for it")]]


class CapsShape(TypedDict):
    """The caps by label."""

    default: Annotated[int, doc("That of labels without one of their own; 0 for no limit.", 0, ge=0)]
    defaultSource: Annotated[str, doc("Who says so.", "default")]
    caps: Annotated[list[CapShape], doc("Those of their own.", [])]


class SharedSettingShape(TypedDict):
    """A setting that all hubs must share."""

    name: Annotated[str, doc("Its name in the environment.", "HUB_NODE_TIMEOUT")]
    value: Annotated[str, doc("What holds for all hubs, as it is written in the environment.", "60")]
    agreed: Annotated[str, doc("What hubs agree on, which holds where no operator has set anything.", "60")]
    setBy: Annotated[str | None, doc("Who set it at run time; null where it was not set.", "ann@rack-7")]
    setAtUtc: Annotated[str | None, doc("When; null where it was not set.", w.TIME, json_schema_extra=w.DATE_TIME)]
    otherwise: Annotated[
        dict[str, str], doc("Hubs that were given another value, and which one.", {"5f0e7d21c4b89a36": "90"})
    ]


class SharedSettingsShape(TypedDict):
    """The settings that all hubs must share."""

    settings: Annotated[list[SharedSettingShape], doc("All of them.", [])]


class TokenShape(TypedDict):
    """A token, without its secret."""

    id: Annotated[str, doc("The first digits of the digest of its secret.", "3b0c44298fc1c149")]
    kind: Annotated[
        Literal["user", "node", "join"], doc("Whom it speaks for; nodes exchange `join` for their own.", "user")
    ]
    user: Annotated[str, doc("The name of the user or the node.", "ann")]
    userId: Annotated[str, doc("The id of the user.", w.TASK, json_schema_extra={"format": "uuid"})]
    superuser: Annotated[bool, doc("Whether the user may do everything.", False)]
    active: Annotated[bool, doc("Whether it is accepted.", True)]
    scopes: Annotated[
        list[Literal["worker", "submit", "read", "admin", "borrow"]] | None,
        doc("What it is for; null for everything.", ["submit"]),
    ]
    rooms: Annotated[list[str] | None, doc("The rooms it is bound to; null for all.", ["lab"])]
    labels: Annotated[list[str] | None, doc("Patterns of the labels that it may borrow; null for all.", ["gpu:*"])]
    team: Annotated[str | None, doc("The team of the user.", "ml")]
    maxPriority: Annotated[int | None, doc("The highest priority that it may borrow with.", 10)]
    validUntilUtc: Annotated[
        str | None, doc("From when on it is refused; null for never.", w.TIME, json_schema_extra=w.DATE_TIME)
    ]
    createdAtUtc: Annotated[
        str | None, doc("When it was made; null for those of the tokens file.", w.TIME, json_schema_extra=w.DATE_TIME)
    ]


class MadeTokenShape(TokenShape):
    """A token that was just made."""

    token: NotRequired[
        Annotated[str, doc("The secret, here and never again; left out when the caller made it.", "hub_u_8Jm3x")]
    ]


class TokensShape(TypedDict):
    """A page of tokens."""

    total: w.Total
    tokens: Annotated[list[TokenShape], doc("Those made at run time, newest first.", [])]
    inFile: Annotated[list[TokenShape], doc("Those of the tokens file.", [])]


class RevokedShape(TypedDict):
    """A token that was revoked."""

    revoked: Annotated[str, doc("Its id.", "3b0c44298fc1c149")]
    last: Annotated[bool, doc("There is none left, so that a hub without secrets is open again.", False)]


@with_config(ConfigDict(extra="allow"))
class EventShape(TypedDict):
    """An event: something that happened, with facts that name the node, slot, pool, run, task and other things that it
    is about."""

    id: Annotated[str, doc("Its id, which rises.", "1750000000000-0")]
    atUtc: w.Utc
    event: Annotated[str, doc("What happened.", "grant.lent")]
    rule: Annotated[str, doc("By which rule, in a sentence.", "A slot was free.")]


class EventsShape(TypedDict):
    """The latest events, newest first."""

    events: Annotated[list[EventShape], doc("The events.", [])]
    complete: w.Complete


class StepShape(TypedDict):
    """The next event to expect."""

    event: Annotated[str, doc("What will happen.", "grant.lapsed")]
    inSeconds: Annotated[
        float | None, doc("In how many seconds of the hub clock; null where that is not known.", 17.25)
    ]
    rule: Annotated[str, doc("By which rule.", "Nobody renewed it.")]


class ExplanationShape(TypedDict):
    """The state of a thing, the reason for it, and its history."""

    kind: Annotated[Kind, doc("What kind of thing it is.", "slot")]
    id: Annotated[str, doc("Its id.", w.SLOT)]
    state: Annotated[str, doc("How it is, in one word.", "lent")]
    because: Annotated[str, doc("Why, in a sentence.", "It is lent to run nightly-42.")]
    facts: Annotated[dict[str, Any], doc("What else is known of it.", {"node": w.NODE})]
    next: Annotated[list[StepShape], doc("What comes next, unless something else happens.", [])]
    history: Annotated[list[EventShape], doc("What happened to it, newest first.", [])]
    complete: w.Complete


class RedisHealthShape(TypedDict):
    """The time in which the store answered."""

    pingMs: Annotated[float, doc("Milliseconds until it answered.", 0.4)]


class HealthShape(TypedDict):
    """The answer while the store can be reached."""

    status: Annotated[Literal["ok"], doc("It does.", "ok")]
    redis: Annotated[RedisHealthShape, doc("How fast.", None)]


class HubReadyShape(TypedDict):
    """The answer while this hub takes requests and the store answers."""

    status: Annotated[Literal["ready"], doc("It does.", "ready")]
    realms: NotRequired[Annotated[dict[str, str], doc("Of a hub with realms, how each is.", {"default": "ready"})]]


class RealmShape(TypedDict):
    """A realm, as this hub sees it."""

    name: Annotated[str, doc("What it is called; `default` for the one without a name.", "eu")]
    url: Annotated[str, doc("Where its store is, without the password.", "redis://10.0.0.5:6379")]
    state: Annotated[
        Literal["open", "away", "opening"], doc("Whether its store answers, or has not been reached yet.", "open")
    ]
    asOf: Annotated[str | None, doc("When its store answered last.", w.TIME)]
    error: Annotated[str | None, doc("Why it does not answer.", "Redis does not answer.")]
    labels: Annotated[list[str], doc("Patterns of the labels that are its own.", ["gpu:*:eu"])]
    rooms: Annotated[list[str], doc("Patterns of the rooms that are its own.", [])]
    nodes: Annotated[list[str], doc("Patterns of the nodes that are its own.", ["eu-*"])]
    spillTo: Annotated[list[str], doc("Realms that may serve its tickets, the best first.", ["us"])]
    spillAfterSeconds: Annotated[float | None, doc("For how long those wait in it before; null: in it alone.", 5)]


class RealmsShape(TypedDict):
    """The realms that a hub serves."""

    rules: Annotated[str | None, doc("The version of the rules: the same for the same rules.", "0b9f4a3e6a5e")]
    realms: Annotated[list[RealmShape], doc("All of them, in the order of their rules.", [])]


class HubLiveShape(TypedDict):
    """The answer of this process to a supervisor."""

    status: Annotated[Literal["live"], doc("It does.", "live")]


class ReadyShape(TypedDict):
    """The answer while a borrow could succeed."""

    status: Annotated[Literal["ready"], doc("It could.", "ready")]
    workers: Annotated[int, doc("How many nodes were heard within two minutes.", 40, ge=0)]
    total: w.Slots
    borrowed: w.Lent
    available: w.Free


class HubConfigShape(TypedDict):
    """The settings of this hub."""

    redisUrl: Annotated[str, doc("Its store, without a password.", "redis://10.0.0.5:6379")]
    borrowTrailingFallback: Annotated[bool, doc("Whether shorter labels serve longer ones.", True)]
    borrowPrefixExpand: Annotated[bool, doc("Whether longer labels serve shorter ones.", True)]
    borrowWildcards: Annotated[bool, doc("Whether a borrow may say `*`.", False)]
    nodeTimeoutSeconds: Annotated[float, doc("After so many seconds of silence a node is stale.", 30.0)]
    dashboardUrl: Annotated[str, doc("Where `/dashboard` leads; empty for the console.", "")]
    version: Annotated[str, doc("The version of the hub.", "0.1.0")]


class DiagnosticsShape(TypedDict):
    """The settings of this hub and the nodes it knows."""

    hubConfig: Annotated[HubConfigShape, doc("Its settings.", None)]
    workers: Annotated[list[NodeOfPoolsShape], doc("The first hundred nodes.", [])]
    now: w.Now


class EnvironmentShape(TypedDict):
    """The environment variables of this hub process that are the hub's own."""

    env: Annotated[dict[str, str], doc("Those of the hub, without secrets.", {"HUB_PORT": "8080"})]
    now: w.Now


@with_config(ConfigDict(extra="allow"))
class NodeEnvironmentShape(TypedDict):
    """The environment variables of a node, as the node itself reports them."""

    env: NotRequired[Annotated[Any, doc("Its variables.", {"PLAYWRIGHT_VERSION": "1.48.0"})]]
