"""Borrows, renews and returns a slot; submits a task, runs it as its worker, and reads the result: generated and typed.

`mypy --strict` accepts it, and it runs against a hub: python borrower.py URL RUNNER_SECRET ADMIN_SECRET
"""

import json
import sys
from typing import TypeVar
from uuid import UUID

from capacity_hub_client import AuthenticatedClient
from capacity_hub_client.api.jobs import register_job
from capacity_hub_client.api.sessions import borrow_slot, renew_lease, return_slot
from capacity_hub_client.api.tasks import claim_tasks, get_task, move_task, submit_task
from capacity_hub_client.models import (
    BorrowBody,
    ClaimBody,
    Claimed,
    ClaimedTask,
    Grant,
    Job,
    MoveBody,
    Problem,
    RenewBody,
    Renewed,
    ReturnBody,
    Returned,
    ServedBody,
    SubmitBody,
    SubmitBodyPayload,
    Task,
    TaskInFull,
)
from capacity_hub_client.models.move_body_status import MoveBodyStatus

T = TypeVar("T")


def client(url: str, secret: str) -> AuthenticatedClient:
    return AuthenticatedClient(url, token=secret, prefix="", auth_header_name="x-hub-secret")


def good(kind: type[T], said: object) -> T:
    """Return the answer, which must be of this type."""
    assert isinstance(said, kind), said
    return said


def main(url: str, runner_secret: str, admin_secret: str) -> None:
    runner, admin = client(url, runner_secret), client(url, admin_secret)
    wish = BorrowBody(label_key="no:such", wait_for_pool=False)
    problem = good(Problem, borrow_slot.sync(client=runner, body=wish))

    wish = BorrowBody(label_key="gpu:a100", ttl_seconds=60)
    grant = good(Grant, borrow_slot.sync(client=runner, body=wish, idempotency_key="python", x_run_id="nightly"))
    longer = RenewBody(browser_id=grant.browser_id, lease_token=grant.lease_token, ttl_seconds=120)
    seconds: float = good(Renewed, renew_lease.sync(client=runner, body=longer)).ttl_seconds
    back = ReturnBody(label_key=grant.label_key, browser_id=grant.browser_id, lease_token=grant.lease_token)
    returned: str = good(Returned, return_slot.sync(client=runner, body=back)).returned

    served = ServedBody(category="modifiers", name="Rotate")
    job = good(Job, register_job.sync("python", client=admin, body=served))
    payload = SubmitBody(payload=SubmitBodyPayload.from_dict({"angle": 90}))
    submitted = good(Task, submit_task.sync("python", job.full_name, client=admin, body=payload))
    claim = ClaimBody(worker_id=UUID(job.worker_id or ""), start=True)
    task = good(ClaimedTask, good(Claimed, claim_tasks.sync(client=admin, body=claim)).task)
    completed = MoveBody(status=MoveBodyStatus.COMPLETED, result={"images": 40})
    good(Task, move_task.sync(task.id, client=admin, body=completed))
    done = good(TaskInFull, get_task.sync(submitted.id, client=admin, prefer="wait=5"))
    print(
        json.dumps(
            {
                "code": problem.code, "slot": grant.browser_id, "seconds": seconds, "returned": returned,
                "status": done.status.value, "result": done.result,
            }
        )
    )  # fmt: skip


main(*sys.argv[1:])
