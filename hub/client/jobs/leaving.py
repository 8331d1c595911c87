"""What a worker that ends still has to tell: its last reports, and that it leaves, in this order."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from hub.client.backlog import ONCE, Backlog, Message
from hub.client.exchange import Send, Steps, passing
from hub.client.jobs.calls import ATTEMPT_S, LEAVE_S, Claim, Claimed, Left, ask, incarnation, lasting, place
from hub.client.jobs.tasks import Report
from hub.errors import HubError, HubUnavailable, TooLarge, WorkerNotFound

log = logging.getLogger("hub.client")


def leave(worker_id: str, unsaid: Sequence[Claim], backlog: Backlog) -> Steps[None]:
    """Delete a worker after its last reports and claims; what takes more than a few seconds is done in the background.

    A claim is repeated as it was, and the tasks that it got are given back. What is refused is logged.
    """
    left = list(unsaid)
    try:
        if backlog.waiting():
            raise HubUnavailable("reports come first that could not be told yet")
        yield from _told(worker_id, left, lasting(0.0 if left else LEAVE_S), LEAVE_S)
    except HubError as error:
        reports = sum(len(claim.reports) for claim in left)
        what = f"tell what came of {reports} tasks and that worker {worker_id} leaves"
        if passing(error):
            steps = partial(_told, worker_id, left, lasting(0.0), ONCE.attempt_s)
            backlog.add(Message(what, steps, math.inf, "the hub misses it by itself, and fails what it held"), error)
        else:
            log.info("could not %s (%s); the hub misses it by itself", what, error)


def _told(worker_id: str, left: list[Claim], left_s: Left, attempt_s: float) -> Steps[None]:
    """Make the calls of `left`, which drops each that was answered, and delete the worker."""
    while left:
        try:
            claimed = Claimed.of((yield from ask(left[0].send(), left_s, min(attempt_s, ATTEMPT_S))))
        except WorkerNotFound:  # nobody has what it held any more
            return
        except TooLarge:
            shorter = [report.shorter() for report in left[0].reports]
            if shorter == list(left[0].reports):
                raise
            left[0] = replace(left[0], reports=shorter)
            continue
        given_back = [Report(task.id, "pending", claim=task.claim) for task in claimed.tasks]
        left[:1] = [Claim(worker_id, limit=0, reports=given_back)] if given_back else []
    yield from ask(Send("DELETE", place("workers", worker_id), query={"incarnation": incarnation()}), left_s, attempt_s)
