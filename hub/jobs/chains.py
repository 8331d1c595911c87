"""Chains of tasks: which tasks a task waits for, which tasks wait for it, and their status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hub.jobs.names import dashed
from hub.store.lenient import read_each
from hub.store.store import Store

FOLLOWERS = 100  # at most so many of the tasks that wait for a task are read


@dataclass(frozen=True)
class Link:
    """A task that is linked to another one, because one of the two waits for the other. An unknown task is `gone`."""

    task: str
    job: str
    status: str

    def document(self) -> dict[str, str]:
        """Return the link as a JSON object for an answer."""
        return {"task": dashed(self.task), "job": self.job, "status": self.status}


@dataclass(frozen=True)
class Links:
    """The links of a task: the tasks it waits for and the tasks that wait for it (`followers`, and `more` unread ones).

    run_on_failure: the task runs however the tasks that it waits for end.
    """

    waits_for: tuple[Link, ...]
    run_on_failure: bool
    followers: tuple[Link, ...]
    more: int


async def links_of(store: Store, task: str) -> Links:
    """Return which tasks a task waits for, and which tasks wait for it."""
    keys = store.keys
    policy, parents, total, (_, children) = await store.read_all(
        [
            ("HGET", keys.task(task), "after"),
            ("SMEMBERS", keys.task_parents(task)),
            ("SCARD", keys.task_children(task)),
            ("SSCAN", keys.task_children(task), 0, "COUNT", FOLLOWERS),
        ]
    )
    waits_for = await links_to(store, sorted(parents))
    listed = await links_to(store, sorted(children))
    followers = tuple(link for link in listed if link.status == "pending")  # cancelled ones are still listed
    return Links(waits_for, policy == "run", followers, max(0, total - len(listed)))


async def links_to(store: Store, tasks: Sequence[str]) -> tuple[Link, ...]:
    """Return a link for each of these tasks, in this order."""
    found = await read_each(store, (("HMGET", store.keys.task(task), "job", "status") for task in tasks), ("", ""))
    return tuple(Link(task, job or "", status or "gone") for task, (job, status) in zip(tasks, found, strict=True))
