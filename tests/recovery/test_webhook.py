"""The webhook of alerts: what is posted, when it is tried again, and what becomes of it when the hub stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from pydantic import SecretStr

from hub.errors import StartRefused
from hub.observability import metrics
from hub.recovery import webhook
from hub.recovery.webhook import Webhook, webhook_url
from hub.settings import Settings
from tests.world import PATIENCE_S, eventually, free_port

ALERT = {"source": "orders", "level": "warning", "before": "ok", "reason": "11 records are stuck", "found": 11}


class Receiver:
    """An HTTP server that answers each request with the next of its statuses, and 200 when none is left.

    A status of 0 cuts the connection, None never answers.
    """

    def __init__(self) -> None:
        self.statuses: list[int | None] = []
        self.heard: list[tuple[str, dict[str, object]]] = []
        self.when_mute: Callable[[], None] = lambda: None  # called before a request is not answered
        self.port = free_port()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/services/T0/hush-hush"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length"))
                body = json.loads(await reader.readexactly(length))
                self.heard.append((lines[0], body))
                status = self.statuses.pop(0) if self.statuses else 200
                if status is None:
                    self.when_mute()
                    await reader.read()
                    return
                if status == 0:
                    return
                writer.write(f"HTTP/1.1 {status} Word\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver()
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
async def post(receiver: Receiver, monkeypatch) -> AsyncIterator[Webhook]:
    monkeypatch.setattr(webhook, "BACKOFF_S", 0.001)
    found = Webhook(receiver.url)
    yield found
    await found.close()


@pytest.fixture
def failures() -> Callable[[], float]:
    """How many alerts were given up since the test began."""

    def count() -> float:
        return metrics.registry.get_sample_value("hub_zombie_webhook_failures_total") or 0

    before = count()
    return lambda: count() - before


def told(caplog) -> list[dict[str, object]]:
    return [record.msg for record in caplog.records if record.msg["event"] == "alert not posted"]


async def test_alerts_are_posted_as_json_in_their_order(post, receiver, failures):
    for found in range(5):
        post.post({**ALERT, "found": found})
    await eventually(lambda: _true(len(receiver.heard) == 5))
    assert {line for line, _ in receiver.heard} == {"POST /services/T0/hush-hush HTTP/1.1"}
    assert [body for _, body in receiver.heard] == [{**ALERT, "found": found} for found in range(5)]
    assert failures() == 0


@pytest.mark.parametrize("statuses", [[500], [503, 429], [0, 502], [599, 0]])
async def test_a_transient_failure_of_the_webhook_is_retried(post, receiver, failures, statuses):
    receiver.statuses = [*statuses]
    post.post(ALERT)
    await eventually(lambda: _true(len(receiver.heard) == len(statuses) + 1))
    await post.close()
    assert {json.dumps(body) for _, body in receiver.heard} == {json.dumps(ALERT)}
    assert failures() == 0


@pytest.mark.parametrize(
    ("statuses", "tries", "why"),
    [
        ([500, 500, 500], 3, "it answered 500; tried 3 times"),
        ([429, 503, 429], 3, "it answered 429; tried 3 times"),
        ([0, 0, 0], 3, "it does not answer (RemoteProtocolError); tried 3 times"),
        ([404], 1, "it answered 404"),
        ([302], 1, "it answered 302"),
    ],
)
async def test_a_given_up_alert_is_logged_without_the_address_and_counted(
    post, receiver, failures, caplog, statuses, tries, why
):
    receiver.statuses = [*statuses]
    post.post(ALERT)
    post.post({**ALERT, "found": 12})
    await eventually(lambda: _true(len(receiver.heard) == tries + 1))
    assert receiver.heard[-1][1]["found"] == 12, "the next one comes all the same"
    assert failures() == 1
    (line,) = told(caplog)
    assert (line["source"], line["alert"], line["host"], line["why"]) == ("orders", "warning", "127.0.0.1", why)
    assert "hush" not in caplog.text


async def test_an_alert_that_comes_while_the_previous_connection_closes_is_posted_too(post, receiver, monkeypatch):
    leave = httpx.AsyncClient.__aexit__

    async def slowly(client, *error):
        await leave(client, *error)
        if len(receiver.heard) == 1:
            post.post({**ALERT, "found": 12})
        await asyncio.sleep(0)

    monkeypatch.setattr(httpx.AsyncClient, "__aexit__", slowly)
    post.post(ALERT)
    await eventually(lambda: _true([body["found"] for _, body in receiver.heard] == [11, 12]))


async def test_a_webhook_that_does_not_listen_is_tried_three_times_and_given_up(failures, caplog, monkeypatch):
    monkeypatch.setattr(webhook, "BACKOFF_S", 0.001)
    post = Webhook(f"http://user:pass@127.0.0.1:{free_port()}/hush")
    post.post(ALERT)
    await eventually(lambda: _true(failures() == 1))
    (line,) = told(caplog)
    assert line["why"] == "it does not answer (ConnectError); tried 3 times"
    assert "hush" not in caplog.text
    assert "pass" not in caplog.text
    await post.close()


async def test_a_webhook_that_never_answers_is_given_up(post, receiver, failures, monkeypatch):
    receiver.when_mute = lambda: monkeypatch.setattr(webhook, "TIMEOUT_S", PATIENCE_S)  # for the tries after this one
    monkeypatch.setattr(webhook, "TIMEOUT_S", 0.2)
    receiver.statuses = [None, 200]
    post.post(ALERT)
    await eventually(lambda: _true(len(receiver.heard) == 2))
    await post.close()
    assert failures() == 0


async def test_of_too_many_alerts_the_last_are_given_up(post, receiver, failures):
    for _ in range(webhook.WAITING_MAX + 5):
        post.post(ALERT)
    assert failures() == 5
    await eventually(lambda: _true(len(receiver.heard) == webhook.WAITING_MAX))


async def test_a_stopping_hub_posts_waiting_alerts_without_pauses(receiver, failures, monkeypatch):
    monkeypatch.setattr(webhook, "BACKOFF_S", 600.0)
    post = Webhook(receiver.url)
    receiver.statuses = [500, 200, 200]
    post.post(ALERT)
    post.post({**ALERT, "found": 12})
    await eventually(lambda: _true(len(receiver.heard) == 1))
    await post.close()
    assert [body["found"] for _, body in receiver.heard] == [11, 11, 12]
    assert failures() == 0


async def test_a_stopping_hub_waits_only_a_moment_for_a_silent_receiver(receiver, failures, caplog, monkeypatch):
    monkeypatch.setattr(webhook, "LAST_WORDS_S", 0.05)
    monkeypatch.setattr(webhook, "TIMEOUT_S", 60.0)
    post = Webhook(receiver.url)
    receiver.statuses = [None, None]
    post.post(ALERT)
    post.post(ALERT)
    await eventually(lambda: _true(len(receiver.heard) == 1))
    async with asyncio.timeout(PATIENCE_S):
        await post.close()
    assert failures() == 2
    assert [line["why"] for line in told(caplog)] == ["the hub is stopping"] * 2
    post.post(ALERT)
    assert failures() == 3
    assert len(asyncio.all_tasks()) == 1 + _serving(receiver), "nothing is left running"


def _serving(receiver: Receiver) -> int:
    return sum("_serve" in repr(task) for task in asyncio.all_tasks())


async def test_without_a_webhook_nothing_is_posted_or_counted(failures):
    post = Webhook(None)
    post.post(ALERT)
    await post.close()
    assert failures() == 0


@pytest.mark.parametrize(
    "url",
    ["hooks.example/hush", "ftp://h/hush", "https:///hush", "http://h:99999/hush", "http://[::1/hush", "https://"],
)
def test_an_invalid_webhook_address_is_refused_without_being_shown(url):
    with pytest.raises(StartRefused, match="HUB_ZOMBIE_WEBHOOK_URL is no address such as https://host/path") as refused:
        webhook_url(Settings(zombie_webhook_url=SecretStr(url)))
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(("given", "used"), [(None, None), ("", None), ("https://h/x?y=1", "https://h/x?y=1")])
def test_a_valid_webhook_address_is_used_unchanged(given, used):
    assert webhook_url(Settings(zombie_webhook_url=SecretStr(given) if given is not None else None)) == used


async def _true(condition: bool) -> bool:
    return condition


@pytest.mark.parametrize(
    "head", ["transfer-encoding: chunked\r\ncontent-encoding: gzip", "content-length: 1000000000000"]
)
async def test_an_endless_answer_of_the_webhook_is_not_read(head):
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n1\r\n\x1f\r\n".encode("latin-1"))
        await reader.read()  # until the other side hangs up
        ended.set()
        writer.close()

    port = free_port()
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    posted = Webhook(f"http://127.0.0.1:{port}/x")
    before = metrics.registry.get_sample_value("hub_zombie_webhook_failures_total")
    posted.post(ALERT)
    async with asyncio.timeout(PATIENCE_S):
        await ended.wait()
    await posted.close()
    server.close()
    assert metrics.registry.get_sample_value("hub_zombie_webhook_failures_total") == before
