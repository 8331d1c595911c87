"""A refusal as a program hears it: what was refused and why, from a few lines below its own."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import hub.client
from hub.client import HubClient, SyncHubClient
from hub.client.jobs import JobsClient, SyncJobsClient
from hub.errors import HubError, NoCapacity, Unauthorized

OURS = str(Path(hub.client.__file__).parent)
NONE_FREE = {
    "status": 503,
    "code": "no-capacity",
    "detail": "No browser available for gpu:a100",
    "hint": "none is",
}
REFUSED = {"status": 401, "code": "unauthorized", "title": "Unauthorized"}


def refusing(problem: dict[str, Any]) -> httpx.MockTransport:
    return httpx.MockTransport(lambda _: httpx.Response(problem["status"], json=problem))


def below(error: HubError) -> int:
    """How many lines of the SDK stand in its traceback."""
    return sum(frame.filename.startswith(OURS) for frame in traceback.extract_tb(error.__traceback__))


def borrow(transport: httpx.MockTransport) -> None:
    with SyncHubClient("http://hub", transport=transport) as client, client.borrow("gpu:a100"):
        pass


async def borrow_async(transport: httpx.MockTransport) -> None:
    async with HubClient("http://hub", transport=transport) as client, client.borrow("gpu:a100"):
        pass


def submit(transport: httpx.MockTransport) -> None:
    with SyncJobsClient("http://hub", transport=transport) as client:
        client.submit("lab:modifiers:Turn", {}, "lab")


async def submit_async(transport: httpx.MockTransport) -> None:
    async with JobsClient("http://hub", transport=transport) as client:
        await client.submit("lab:modifiers:Turn", {}, "lab")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HUB_RUNNER_SECRET", "HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


Call = Callable[[httpx.MockTransport], Awaitable[None] | None]


async def heard(call: Call, problem: dict[str, Any]) -> HubError:
    try:
        if (waited := call(refusing(problem))) is not None:
            await waited
    except HubError as error:
        return error
    raise AssertionError("it was not refused")


@pytest.mark.parametrize("call", [borrow, borrow_async])
async def test_a_refusal_has_its_detail_and_a_short_traceback(call: Call):
    error = await heard(call, NONE_FREE)
    assert (type(error), str(error)) == (NoCapacity, "No slot available for gpu:a100: none is")
    assert below(error) <= 3
    assert (error.__cause__, error.__suppress_context__) == (None, True)


@pytest.mark.parametrize("call", [borrow, borrow_async, submit, submit_async])
async def test_a_refused_caller_is_told_which_variable_its_secret_came_from(
    call: Call, monkeypatch: pytest.MonkeyPatch
):
    name = "HUB_TOKEN" if call in (submit, submit_async) else "HUB_RUNNER_SECRET"
    missing = await heard(call, REFUSED)
    monkeypatch.setenv(name, "wrong")
    wrong = await heard(call, REFUSED)
    assert [type(error) for error in (missing, wrong)] == [Unauthorized, Unauthorized]
    assert str(missing).endswith(f"was shown: {name} is not set")
    assert str(wrong).endswith(f"shown was that of {name}")
    assert (missing.detail, wrong.detail) == (str(missing), str(wrong))
    assert max(below(missing), below(wrong)) <= 3


async def test_a_refusal_says_nothing_about_a_secret_that_the_program_passed_in():
    with (
        SyncHubClient("http://hub", secret="mine", transport=refusing(REFUSED)) as client,
        pytest.raises(Unauthorized) as told,
        client.borrow("gpu:a100"),
    ):
        pass
    assert "shown" not in str(told.value)
