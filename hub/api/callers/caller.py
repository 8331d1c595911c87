"""The caller of a request, and what it may do: the one place where rights are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from hub.core import Hub
from hub.errors import Forbidden, HubError, ProviderNotFound, TaskNotFound, Unauthorized
from hub.jobs.models import Outcome, TaskRecord
from hub.jobs.names import SHARED, dashed, parse_full_name
from hub.jobs.submits import unknown_parents
from hub.tokens.models import covers, in_order, user_of

WORKER, SUBMIT, READ, BORROW = "worker", "submit", "read", "borrow"  # scopes of tokens


class LabelNotAllowed(HubError):
    """A token asks for a label that none of its patterns covers."""

    code = "label"
    status = 403


class PriorityNotAllowed(HubError):
    """A token asks for a priority above the highest that it may."""

    code = "priority"
    status = 403


@dataclass(frozen=True)
class Caller:
    """A user, a node, or one that a shared secret has let in.

    A user has an id (32 hex digits), and the rights of its token: without `scopes` the token may do everything; with
    `rooms` it acts in these rooms only, and also sees what is offered to all rooms, in `@global` and `@internal`. A
    node with a token of its own speaks for the node `node`; any other caller that may speak for nodes speaks for all.
    """

    user: str = ""
    superuser: bool = False
    scopes: frozenset[str] = frozenset()
    name: str = ""
    rooms: frozenset[str] = frozenset()
    node: str | None = None
    token: str = ""  # the id of a node's token
    team: str = ""
    labels: tuple[str, ...] = ()  # patterns of the labels that it may borrow; all without any
    max_priority: int | None = None
    is_node: bool = False  # it has the secret of nodes, and speaks for any of them
    commands: bool = False  # it has the admin secret or is a superuser, and may end the leases of others

    @property
    def key(self) -> str:
        """Return the name under which the calls of this caller are counted: a user's is the same for all its tokens, a
        stranger's is empty."""
        if self is STRANGER:
            return ""
        return f"user:{self.user}" if self.user else f"token:{self.token}"

    @cached_property
    def by(self) -> str:
        """Return who calls, as `lua/holders.lua` wants it: the id of a user, '' for a shared secret, 'node' for a
        caller that speaks for nodes."""
        if self.is_node or self.node is not None:
            return "node"
        return "" if self.user in ("", OPERATOR.user) else self.user

    def check_label(self, label: str) -> None:
        """Raise `LabelNotAllowed` unless the caller may borrow this label; for one segment, all below it."""
        asked = label if ":" in label else f"{label}:*"
        if self.labels and not any(covers(pattern, asked) for pattern in self.labels):
            may = ", ".join(self.labels)
            raise LabelNotAllowed(f"The token shown may not borrow {label!r:.200}; it may borrow {may:.500}.")

    def check_priority(self, priority: int) -> None:
        """Raise `PriorityNotAllowed` for a priority above the highest that the caller may ask for."""
        if self.max_priority is not None and priority > self.max_priority:
            most = f"a priority of at most {self.max_priority}"
            raise PriorityNotAllowed(f"The token shown allows {most}, not {priority}.")

    def check_known(self) -> None:
        """Raise `Unauthorized` for a stranger."""
        if self is STRANGER:
            raise Unauthorized()

    def check_scope(self, *scopes: str) -> None:
        """Raise `Forbidden` unless the caller's token has one of these scopes."""
        if self.scopes and not self.scopes.intersection(scopes):
            has = ", ".join(in_order(self.scopes))
            raise Forbidden(f"This needs a token with the scope {scopes[-1]}; the one shown has {has}.")

    def check_superuser(self) -> None:
        """Raise `Forbidden` unless the caller is a superuser in all rooms."""
        if not self.superuser:
            raise Forbidden("This is for superusers.")
        if self.rooms:
            raise Forbidden("This needs a token that is not bound to rooms: it concerns all of them.")

    def check_node(self, node: str) -> None:
        """Raise `Forbidden` unless the caller may speak for this node."""
        if self.node not in (None, node):
            raise Forbidden(f"The token shown speaks for node {self.node!r:.80} alone, and this is about {node!r:.80}.")

    async def check_slot(self, hub: Hub, slot: str) -> None:
        """Raise `Forbidden` unless the slot belongs to the caller's node. A caller that speaks for any node may name
        any slot."""
        store = hub.store
        if self.node is not None and await store.read("HGET", store.keys.slot(slot), "node") != self.node:
            raise Forbidden(f"The token shown speaks for node {self.node!r:.80} alone, which has no slot {slot!r:.80}.")

    def acts_in(self, room: str) -> bool:
        """Return whether the caller may act in the room."""
        return not self.rooms or room in self.rooms

    def enter(self, room: str) -> None:
        """Raise `Forbidden` unless the caller may act in the room."""
        if not self.acts_in(room):
            raise Forbidden(f"This is in room {room!r:.80}; {self._bound}.")

    def look_into(self, *rooms: str) -> None:
        """Raise `Forbidden` unless the caller may see what is in each of the rooms."""
        for room in rooms:
            if room not in SHARED:
                self.enter(room)

    def see_task(self, task: TaskRecord) -> None:
        """Raise `TaskNotFound` unless the caller may see the task: the room that the task was submitted to, or the room
        of its job, is one of the caller's, or the task was submitted to a room that is for all."""
        if task.room not in SHARED and not self._is_near(task):
            raise TaskNotFound(f"Task {dashed(task.id)} is not known")

    async def see_parents(self, hub: Hub, after: Sequence[str]) -> None:
        """Raise `Malformed` unless the caller may see all tasks that a new task is to wait for."""
        if unseen := await self._unseen(hub, after):
            raise unknown_parents(after, sorted(unseen))

    async def outcomes(self, hub: Hub, tasks: Sequence[str], words: Sequence[Outcome]) -> list[Outcome]:
        """Return the outcomes of reports about tasks, as the caller may know them: `gone`, as for an unknown task, for
        refused reports about tasks that the caller may not see."""
        refused = [task for task, word in zip(tasks, words, strict=True) if word in ("forbidden", "conflict")]
        unseen = await self._unseen(hub, refused)
        return ["gone" if task in unseen else word for task, word in zip(tasks, words, strict=True)]

    async def reach_task(self, hub: Hub, task: str) -> None:
        """Raise `TaskNotFound` unless the caller may change the task."""
        if self.rooms and not self._is_near(await hub.tasks.get(task)):
            raise TaskNotFound(f"Task {dashed(task)} is not known")

    async def reach_worker(self, hub: Hub, worker: str) -> None:
        """Raise `Forbidden` when the worker serves a job of a room in which the caller may not act: the caller would
        get the tasks of this job."""
        if self.rooms and (beyond := set(await hub.workers.rooms(worker)) - self.rooms):
            raise Forbidden(f"Worker {dashed(worker)} serves jobs of room {min(beyond)!r:.80}; {self._bound}.")

    async def reach_provider(self, hub: Hub, provider: str) -> None:
        """Raise `ProviderNotFound` unless the caller may act in the provider's room."""
        if self.rooms and not self.acts_in(room_of(await hub.providers.name(provider))):
            raise ProviderNotFound(f"Provider {dashed(provider)} is not known")

    async def _unseen(self, hub: Hub, tasks: Sequence[str]) -> set[str]:
        if not self.rooms or not tasks:
            return set()
        found = await hub.tasks.several(list(tasks))
        return set(tasks) - {task.id for task in found if task.room in SHARED or self._is_near(task)}

    def _is_near(self, task: TaskRecord) -> bool:
        return self.acts_in(task.room) or self.acts_in(room_of(task.job))

    @property
    def _bound(self) -> str:
        return f"the token shown is bound to {', '.join(map(repr, sorted(self.rooms)))}"


OPERATOR: Final = Caller(user_of(""), superuser=True, name="operator")  # no user can have the empty name
SECRET_HOLDER: Final = Caller(name="secret")  # a caller with a shared secret, which speaks for any node
NODE_HOLDER: Final = replace(SECRET_HOLDER, is_node=True)
ADMIN_HOLDER: Final = replace(SECRET_HOLDER, commands=True)
STRANGER: Final = Caller()  # a caller without a credential, where strangers may read


def room_of(full: str) -> str:
    """Return the room in the full name of a job or a provider. For a text that is no full name return a room that every
    caller sees; the look-up then finds nothing under this name."""
    parts = parse_full_name(full)
    return parts[0] if parts else SHARED[0]
