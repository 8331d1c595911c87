"""Every operation of the jobs API in the OpenAPI document with generated calls, right and wrong: no failure, no answer
that the document does not know, nothing kept of what was refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS
from schemathesis.core.failures import FailureGroup

from tests.api.jobs.people import JOB, PROBLEM, J
from tests.api.test_fuzz import DOCUMENT, NO_SECRETS, Quarry, call, cases

OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in sorted(DOCUMENT["paths"].items())
    if path.startswith(J)
    for method in sorted(methods)
]
SHORT_WAITS = {
    "HUB_LONG_POLL_MAX_WAIT_SECONDS": "0",
    "HUB_PROVIDER_LONG_POLL_DEFAULT_SECONDS": "0",
    "HUB_PROVIDER_LONG_POLL_MAX_SECONDS": "0",
    "HUB_WORKER_TIMEOUT_SECONDS": "3600",
}
AS_DOCUMENTED = [
    check
    for check in CHECKS.get_all()
    if check.__name__ in ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
]


class Jobs(Quarry):
    """A quiet hub with one of everything, and what it is called."""

    def seed(self) -> None:
        super().seed()
        post = lambda path, **body: self.http.post(J + path, json=body).json()  # noqa: E731
        worker = post("/workers")["id"]
        for kind in ("jobs", "providers"):
            body = {"category": "modifiers", "name": "Rotate", "worker_id": worker}
            provider = self.http.put(f"{J}/rooms/lab/{kind}", json=body).json()["id"]
        tasks = post(f"/rooms/lab/tasks/lab:{JOB}", payloads=[{}] * 4, maxAttempts=1)["ids"]
        post("/tasks/claim", worker_id=worker, limit=2, start=True)
        self.http.patch(f"{J}/tasks/{tasks[0]}", json={"status": "failed"})
        self.http.put(f"{J}/rooms/lab/schedules/nightly", json={"job": f"lab:{JOB}", "everySeconds": 3600})
        self.known = {
            "room_id": ["lab"], "job_name": [f"lab:{JOB}"], "name": [f"lab:{JOB}"], "worker_id": [worker],
            "provider_id": [provider], "task_id": tasks, "id": tasks,
            "category": ["modifiers"], "schedule": ["nightly"], "job": [f"lab:{JOB}"],
        }  # fmt: skip

    def stored(self) -> dict[bytes, tuple[bytes, int]]:
        """Return the stored keys, without the run times of jobs: a sweep writes those every second."""
        found = super().stored()
        for key, (_, left) in found.items():
            if key.startswith(f"{self.prefix}hub:job:".encode()):
                fields = self.redis.hgetall(key)
                fields.pop(b"run_us", None)
                found[key] = repr(sorted(fields.items())).encode(), left
        return found


@pytest.fixture(scope="module")
def open_hub(_server):
    quarry = Jobs(_server.url, "fuzz-jobs-open", {**NO_SECRETS, **SHORT_WAITS})
    yield quarry
    quarry.close()


@pytest.fixture(scope="module")
def closed_hub(_server):
    quarry = Quarry(_server.url, "fuzz-jobs-closed", SHORT_WAITS)
    yield quarry
    quarry.close()


def aim(quarry: Jobs, case: Any, which: int) -> None:
    """Make a call hit what is there: generated ids never would."""
    for name in case.path_parameters or {}:
        case.path_parameters[name] = quarry.known[name][which % len(quarry.known[name])]
    if isinstance(case.body, dict):
        for name in ("worker_id", "id", "category"):
            if name in case.body:
                case.body[name] = quarry.known[name][which % len(quarry.known[name])]


def check_refusal(quarry: Quarry, answer: httpx.Response, before: dict[bytes, tuple[bytes, int]]) -> None:
    """Assert that a refusal is in the contract and that nothing of the call is stored."""
    shown = (answer.request.method, str(answer.request.url), answer.request.content[:300], answer.text[:500])
    assert answer.status_code in (400, 401, 403, 404, 405, 409, 413, 422, 503, 504), shown
    document = answer.json()
    if answer.headers["content-type"] == PROBLEM:
        assert {"type", "title", "status"} <= set(document) <= {"type", "title", "status", "detail"}, shown
        assert document["status"] == answer.status_code, shown
        assert document["type"].startswith("/v1/problems/"), shown
    else:
        assert answer.status_code in (401, 404, 405, 422), shown
        assert set(document) == {"detail"}, shown
        assert isinstance(document["detail"], list) == (answer.status_code == 422), shown
    assert (answer.status_code in (503, 504)) == ("retry-after" in answer.headers), shown
    told = {key: digest for key, (digest, _) in before.items()}
    after = {
        key.decode()[len(quarry.prefix) :] for key, (digest, _) in quarry.stored().items() if told.get(key) != digest
    }
    assert {key for key in after if not (answer.status_code == 504 and key.startswith("hub:"))} == set(), shown


def hunt(quarry: Any, operation: str, examples: int, secrets: list[str | None], *, seeded: bool) -> set[int]:
    """Call an operation so many times; returns the statuses that were answered."""
    seen: set[int] = set()
    quarry.seed()

    @hypothesis_settings(
        max_examples=examples, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=cases(operation), known=st.booleans(), which=st.integers(0, 3), secret=st.sampled_from(secrets))
    def run(case: Any, known: bool, which: int, secret: str | None) -> None:
        if seeded and known:
            aim(quarry, case, which)
        before = quarry.stored()
        try:
            answer = call(quarry, case, secret)
        except (httpx.InvalidURL, UnicodeEncodeError, httpx.LocalProtocolError):
            return  # no client can send this one
        seen.add(answer.status_code)
        if answer.status_code >= 400:
            check_refusal(quarry, answer, before)
        if answer.status_code not in (404, 405):  # a generated path may be another one
            try:
                case.validate_response(answer, checks=AS_DOCUMENTED)
            except FailureGroup as group:
                raise AssertionError("\n".join(str(each) for each in group.exceptions)) from None

    run()
    return seen


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_open_hub_answers_as_the_contract_says_and_stores_nothing_of_a_refused_call(open_hub, operation):
    seen = hunt(open_hub, operation, 24, [None], seeded=True)
    assert seen & {200, 201, 202, 204, 404, 409, 504}, seen


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_hub_with_secrets_does_nothing_for_strangers(closed_hub, operation):
    seen = hunt(closed_hub, operation, 8, [None, "", "wrong"], seeded=False)
    method, path = operation.split()
    writes_to_a_room = method in ("PUT", "POST") and "/rooms/" in path
    open_to_all = method == "GET" and "/dead" not in path and not path.endswith("/providers/{name}")
    allowed = {401, 404, 405, 413} | ({400} if writes_to_a_room else set())
    assert open_to_all or seen <= allowed, seen


def test_the_document_lists_every_operation_of_the_contract():
    assert len(OPERATIONS) == 20 + 11, OPERATIONS
