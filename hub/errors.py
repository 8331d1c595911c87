"""The errors with which the hub refuses a request: the code on the wire, the HTTP status, and the facts.

    HubError
    |- BadInput 400          InvalidJson, MissingMember, InvalidValue, InvalidLabel, BadWhere, NodeIdCollides
    |- NotFound 404          UnknownNode, UnknownTicket, NoSuchPool
    |- Unauthorized 401, Foreign, NotHolder 403, MethodNotAllowed 405, RequestTimedOut, CallerGone 408, TooLarge 413
    |- LeaseOver, Withdrawn, SlotLent, TicketGranted, NodeTaken, NodeIdInUse, Superseded 409; NotJson 415 of hub/api
    |- KeyReused, Malformed, NoReason, NamesDiffer 422, UnknownMember 400 of hub/api/{callers/logins,shapes/neutral}.py
    |- Internal, ForeignKey, StoreFault, UnknownReply 500; NodeSilent, NodeRefused of hub/capacity/nodes/asking.py
    |- Unavailable 503       Settling, Stopping, StoreUnavailable, StoreFull, RecordsUnavailable (Retry-After)
    |  |- NoCapacity         Capped, WaitedInVain, DeadlineMissed, LabelQueueFull, RunQueueFull, TooManyExpressions
    |                        HubUnavailable, raised by the SDK alone; NotReplicated, Late of hub/store/
    |- JobsProblem           InvalidRoomId, InvalidCategory 400, Forbidden 403, JobNotFound, WorkerNotFound,
    |                        TaskNotFound, ProviderNotFound 404, SchemaConflict, InvalidTaskTransition, ResultNotAsked,
    |                        QuotaExceeded 409, InternalJobNotConfigured 503, ProviderTimeout 504; see jobs/schedules.py
    |- LeaseLost             raised by the SDK alone: the block outlived its lease; hub.client.jobs.TaskEnded
    `- StartRefused          the one sentence a hub says before it does not start; SourceRefused

`hub.api.handling.problems` turns them into RFC 9457 documents; the SDK turns those back into the same classes.
"""

from __future__ import annotations

from typing import Any, ClassVar


class HubError(Exception):
    """A request that the hub refuses: `code` is for machines, `detail` for people, `facts` join the answer."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    retry_after_s: float | None = None

    def __init__(self, detail: str | None = None, retry_after_s: float | None = None, **facts: Any) -> None:
        super().__init__(detail or self.code)
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s
        self.detail, self.facts = detail, facts


class BadInput(HubError):
    code = "bad-request"
    status = 400


class InvalidJson(BadInput):
    code = "invalid-json"


class MissingMember(BadInput):
    code = "missing-member"


class InvalidValue(BadInput):
    code = "invalid-value"


class InvalidLabel(BadInput):
    """A label that breaks the grammar; `reason` in the facts is the code of the rule that it breaks."""

    code = "invalid-label"


class BadWhere(BadInput):
    """An expression `where` that cannot be read; the facts `position`, from 1, and `expected` say why."""

    code = "bad-where"


class NodeIdCollides(BadInput):
    code = "node-id-collides"


class Unauthorized(HubError):
    code = "unauthorized"
    status = 401


class Foreign(HubError):
    """A call from a web page of another site, or under a host name that is not this hub's."""

    code = "foreign"
    status = 403


class NotFound(HubError):
    code = "not-found"
    status = 404


class UnknownNode(NotFound):
    code = "unknown-node"


class UnknownTicket(NotFound):
    code = "unknown-ticket"


class NoSuchPool(NotFound):
    code = "no-such-pool"


class MethodNotAllowed(HubError):
    code = "method-not-allowed"
    status = 405


class RequestTimedOut(HubError):
    code = "request-timeout"
    status = 408


class LeaseOver(HubError):
    """The lease of this call has ended; its slot may be lent again by now."""

    code = "grant-over"
    status = 409


class Withdrawn(HubError):
    """The borrow was given up while it waited."""

    code = "withdrawn"
    status = 409


class SlotLent(HubError):
    """The slot was to be withdrawn only if it is free, and it is lent."""

    code = "slot-lent"
    status = 409


class NodeTaken(HubError):
    """A node may not join: another machine may be that node, or its token was revoked."""

    code = "node-taken"
    status = 409


class NodeIdInUse(NodeTaken):
    code = "node-id-in-use"


class Superseded(HubError):
    """Another process has registered as this node or worker since, or the calling process has left."""

    code = "superseded"
    status = 409


class TooLarge(HubError):
    code = "too-large"
    status = 413


class KeyReused(HubError):
    """An `Idempotency-Key` came back with a different request."""

    code = "key-reused"
    status = 422


class Unavailable(HubError):
    """The hub cannot serve this call now; the caller should try again after `retry_after_s` seconds."""

    code = "unavailable"
    status = 503
    retry_after_s = 1.0


class NoCapacity(Unavailable):
    """No slot is free, and the caller did not ask to wait."""

    code = "no-capacity"


class Capped(NoCapacity):
    """The requested label has as many leases in flight as its cap allows, and the caller did not ask to wait."""

    code = "capped"


class WaitedInVain(NoCapacity):
    """The caller waited in the queue for the longest time it allowed and got no slot."""

    code = "timeout"


class DeadlineMissed(NoCapacity):
    """The wait in the queue is expected to take longer than the caller allows (`maxWaitSeconds`)."""

    code = "deadline"


class LabelQueueFull(NoCapacity):
    """The queue of this label has as many tickets as it may have."""

    code = "per-label-cap"


class RunQueueFull(NoCapacity):
    """The run has as many borrows in queues as it may have."""

    code = "per-run-cap"


class TooManyExpressions(NoCapacity):
    """Borrows wait with as many different `where` already as the hub can tell apart."""

    code = "too-many-expressions"


class CallerGone(HubError):
    """The caller closed its connection while it waited, so no answer can be sent."""

    code = "caller-gone"
    status = 408


class TicketGranted(HubError):
    """The ticket was to be given up, and holds a slot by now."""

    code = "ticket-granted"
    status = 409


class Settling(Unavailable):
    """The store came back empty or older than it was; nothing is lent until hubs have told it what they know."""

    code = "settling"


class Stopping(Unavailable):
    code = "stopping"
    retry_after_s = 30.0


class StoreUnavailable(Unavailable):
    """Redis does not answer. Whether the call was carried out is not known; every call is safe to repeat."""

    code = "store-unavailable"
    retry_after_s = 2.0


class NotSent(StoreUnavailable):
    """The call was not carried out: Redis was known to be away, so it was not sent, or a script refused it at once."""


class StoreFull(NotSent):
    """Redis has no memory left but the reserve, and this call would use more. Nothing was done."""

    code = "store-full"
    retry_after_s = 5.0


class HubUnavailable(Unavailable):
    """Raised by the SDK: no hub answered within the time the caller allowed."""

    code = "hub-unavailable"


class LeaseLost(HubError):
    """Raised by the SDK: the lease ended while the block that uses its slot was running, and the block was stopped."""

    code = "lease-lost"
    status = 409


class NotHolder(HubError):
    """The lease or the ticket is another caller's; `holder` and `sinceUtc` in the facts name it."""

    code = "not-holder"
    status = 403


class JobsProblem(HubError):
    """A refusal of the jobs API. The last part of `type` in its problem document is the code."""

    code = "jobs"


class InvalidRoomId(JobsProblem):
    code = "invalid-room-id"
    status = 400


class InvalidCategory(JobsProblem):
    code = "invalid-category"
    status = 400


class Forbidden(JobsProblem):
    code = "forbidden"
    status = 403


class JobNotFound(JobsProblem):
    code = "job-not-found"
    status = 404


class WorkerNotFound(JobsProblem):
    code = "worker-not-found"
    status = 404


class TaskNotFound(JobsProblem):
    code = "task-not-found"
    status = 404


class ProviderNotFound(JobsProblem):
    code = "provider-not-found"
    status = 404


class SchemaConflict(JobsProblem):
    code = "schema-conflict"
    status = 409


class InvalidTaskTransition(JobsProblem):
    code = "invalid-task-transition"
    status = 409


class ResultNotAsked(JobsProblem):
    """A provider uploads a result for parameters that no client has asked for."""

    code = "result-not-asked"
    status = 409


class QuotaExceeded(JobsProblem):
    """The user or the room holds as much of one kind as its quota allows. Nothing was done."""

    code = "quota-exceeded"
    status = 409


class InternalJobNotConfigured(JobsProblem):
    code = "internal-job-not-configured"
    status = 503


class ProviderTimeout(JobsProblem):
    code = "provider-timeout"
    status = 504
    retry_after_s = 2.0


class Malformed(HubError):
    """A request of the jobs API that is not valid; `errors` in the facts has an entry for each fault: where and why."""

    code = "malformed"
    status = 422


class Internal(HubError):
    code = "internal"


class ForeignKey(HubError):
    """A key of the hub holds a Redis type that the hub never writes there: some other program uses the key."""

    code = "foreign-key"


class StoreFault(HubError):
    """Redis refused a command, and repeating it would not help: a bug, or a server with an unusual configuration."""

    code = "store-fault"


class StartRefused(HubError):
    """The hub does not start; `detail` is one sentence that says why and what to change."""

    code = "start-refused"


class SourceRefused(StartRefused):
    """A declared source of records does not fit its table; the sentence names the file, the source and the field."""

    code = "source-refused"


class RecordsUnavailable(Unavailable):
    """The database or Redis with the records of a source does not answer, or refuses the hub's credentials."""

    code = "records-unavailable"


class UnknownReply(HubError):
    """A script gave an answer that the calling code does not know: a bug of the hub, never a mistake of a user."""

    code = "unknown-reply"

    def __init__(self, script: str, reply: Any) -> None:
        super().__init__(f"{script} answered {reply!r}")
