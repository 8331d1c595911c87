"""Hooks over HTTP and with `hub hook`: added, shown, tried, paused and removed, and what is refused."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from standardwebhooks import Webhook

from hub.hooks.messages import body_of, new_secret
from tests.world import eventually

JOBS = "/v1/joblib"
ON = ["lease.granted", "lease.ended"]


@pytest.fixture
async def local(make_api):
    async with make_api(hook_hosts=("127.0.0.1",)) as api:
        yield api


async def test_a_hook_is_added_shown_tried_paused_and_removed(local, receiver, redis):
    asked = {"url": receiver.url, "on": ON, "label": "gpu:*", "user": "ann"}
    answer = await local.post("/admin/hooks", json=asked)
    made = answer.json()
    secret, hook = made.pop("secret"), made["id"]
    assert (answer.status_code, answer.headers["cache-control"]) == (201, "no-store")
    assert {name: made[name] for name in asked} == asked
    assert (made["format"], made["paused"], made["waiting"], made["last"]) == ("json", None, 0, None)
    tried = (await local.post(f"/admin/hooks/{hook}/test")).json()
    assert tried == {"id": hook, "delivered": True, "said": "ok"}
    said = Webhook(secret).verify(receiver.heard[0].body, receiver.heard[0].headers)
    assert (said["type"], said["data"]) == ("hook.test", {})
    receiver.answer = lambda _: 503
    assert (await local.post(f"/admin/hooks/{hook}/test")).json()["said"] == "it answered 503"
    assert (await local.post(f"/admin/hooks/{hook}/pause")).json()["paused"] == "an operator has paused it"
    assert (await local.post(f"/admin/hooks/{hook}/resume")).json()["paused"] is None
    assert (await local.get(f"/admin/hooks/{hook}")).json() == made
    assert (await local.get("/admin/hooks")).json() == {"total": 1, "hooks": [made]}
    audit = (await local.get("/audit")).text
    assert all(f'"hook.{act}"' in audit for act in ("add", "pause", "resume"))
    assert secret not in audit
    assert receiver.url not in audit  # only its host is there: the rest may be a secret
    assert (await local.delete(f"/admin/hooks/{hook}")).status_code == 204
    assert (await local.get(f"/admin/hooks/{hook}")).status_code == 404
    assert redis.keys("hub:hook*") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"on": []}, {"on": "lease.ended"}, {"on": ["lease.gone"]}, {"on": [7]}, {"on": None}, {"format": "xml"},
        {"format": 7}, {"label": "a::b"}, {"label": "x" * 513}, {"user": "u" * 201}, {"user": " "},
        {"secret": "whsec_short"}, {"secret": "x" * 40}, {"secret": 7}, {"secret": "whsec_" + "A" * 33},
    ],
)  # fmt: skip
async def test_a_hook_that_says_nonsense_is_refused(api, wrong):
    answer = await api.post("/admin/hooks", json={"url": "http://8.8.8.8/", "on": ON, **wrong})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), answer.text
    assert next(iter(wrong)) in answer.json()["detail"]


async def test_a_call_with_a_secret_of_the_caller_may_be_repeated(api):
    asked = {"url": "http://8.8.8.8/", "on": ON, "secret": new_secret()}
    first, again = [await api.post("/admin/hooks", json=asked) for _ in range(2)]
    assert first.json() == again.json()
    assert "secret" not in first.json()
    other = await api.post("/admin/hooks", json={**asked, "url": "http://8.8.4.4/"})
    assert (other.status_code, other.json()["member"]) == (400, "secret")
    assert (await api.get("/admin/hooks")).json()["total"] == 1


async def test_the_label_of_all_is_no_filter(api):
    made = await api.post("/admin/hooks", json={"url": "http://8.8.8.8/", "on": ON, "label": "*"})
    assert made.json()["label"] is None


async def test_there_is_an_end_to_the_number_of_hooks(api, monkeypatch):
    monkeypatch.setattr("hub.hooks.hooks.HOOKS_MAX", 2)
    answers = [await api.post("/admin/hooks", json={"url": "http://8.8.8.8/", "on": ON}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 409]
    assert answers[2].json()["code"] == "quota-exceeded"


async def test_status_names_a_hook_that_the_hub_has_paused(local, hub, receiver, redis, add_hook):
    hook = await add_hook()
    redis.hset("hub:hooks_paused", hook, "it answered 410")
    redis.hset(f"hub:hook:{hook}", "paused", "it answered 410")
    seen = (await local.get("/console/overview")).json()
    (trouble,) = [each for each in seen["troubles"] if each["name"] == "hook-paused"]
    assert (trouble["level"], trouble["title"]) == ("warning", "1 hook takes no messages")
    assert f"{hook}: it answered 410" in trouble["text"]
    text = (await local.get("/metrics")).text
    assert "\nhub_hooks_paused 1.0\n" in text
    await local.post(f"/admin/hooks/{hook}/resume")
    assert "\nhub_hooks_paused 0.0\n" in (await local.get("/metrics")).text


SAID = {
    "slot": "s1",
    "node": "n1",
    "label": "gpu:a100",
    "pool": "gpu:a100",
    "user": "<!channel> & co",
    "event": "grant.lent",
}
SENTENCES = [
    ("lease.granted", {}, "s1 was lent to <!channel> & co for gpu:a100."),
    ("lease.ending", {"why": "idle", "ends_in_ms": "60000"}, "The lease of s1 by <!channel> & co ends in 60 s: idle."),
    ("lease.ended", {"event": "grant.returned"}, "The lease of s1 by <!channel> & co has ended: it was returned."),
    ("lease.ended", {"why": "lapsed"}, "The lease of s1 by <!channel> & co has ended: it was not renewed in time."),
    ("lease.ended", {"why": "node"}, "The lease of s1 by <!channel> & co has ended: the hub ended it (node)."),
    ("ticket.turn", {"user": ""}, "It is the turn of a borrower: s1 is lent for gpu:a100."),
    ("node.expired", {}, "Node n1 was silent for too long and was removed."),
    ("slot.unwell", {"reason": "its\nfan"}, "Slot s1 of n1 is unwell and is not lent: its fan."),
    ("task.dead", {"task": "0" * 32, "job": "a:b:C", "why": "boom"}, f"Task {UUID(int=0)} of a:b:C failed for the last "
     "time it might: boom."),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "facts", "sentence"), SENTENCES)
def test_chats_are_told_in_a_sentence(kind, facts, sentence):
    plain, slack, teams = (
        body_of(kind, "1-0", {**SAID, **facts}, form)[0].decode() for form in ("plain", "slack", "teams")
    )
    assert plain == sentence
    assert json.loads(slack) == {"text": sentence.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    (card,) = json.loads(teams)["attachments"]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert card["content"]["body"][0]["inlines"] == [{"type": "TextRun", "text": sentence}]


async def test_the_command_line_adds_and_shows_hooks(start_hub, receiver, run_hub):
    hub = start_hub(HUB_HOOK_HOSTS="127.0.0.1")
    added = run_hub(
        hub, "add", receiver.url, "--on", "lease.ended, node.expired", "--label", "gpu:*", "--format", "plain"
    )
    assert added.returncode == 0, added.stderr
    secret = added.stdout.strip()
    assert secret.startswith("whsec_")
    (shown,) = json.loads(run_hub(hub, "ls", "--json").stdout)["hooks"]
    assert (shown["on"], shown["label"], shown["format"]) == (["lease.ended", "node.expired"], "gpu:*", "plain")
    hook = shown["id"]
    assert hook in added.stderr
    assert secret not in hub.log()
    assert run_hub(hub, "test", hook).returncode == 0
    assert receiver.heard[0].body == b"This is a test message of the hub."
    receiver.answer = lambda _: 404
    tried = run_hub(hub, "test", hook)
    assert (tried.returncode, tried.stdout) == (1, f"{hook}: not delivered: it answered 404.\n")
    for words, said in ((("pause", hook), "is paused."), (("resume", hook), "is resumed"), (("show", hook), "gpu:*")):
        found = run_hub(hub, *words)
        assert (found.returncode, said in found.stdout) == (0, True), found.stdout + found.stderr
        assert secret not in found.stdout
    refused = run_hub(hub, "add", "http://10.0.0.1/", "--on", "lease.ended")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "private address" in refused.stderr
    assert run_hub(hub, "add", receiver.url).returncode == 2
    assert "no hook any more" in run_hub(hub, "rm", hook).stdout
    assert run_hub(hub, "rm", hook).returncode == 1


async def test_a_task_that_failed_for_good_is_told(start_hub, receiver):
    hub = start_hub(HUB_HOOK_HOSTS="127.0.0.1")
    async with hub.client() as api:
        await api.post("/admin/hooks", json={"url": receiver.url, "on": ["task.dead"]})
        job = {"category": "modifiers", "name": "Rotate", "schema": {}}
        worker = (await api.put(f"{JOBS}/rooms/lab/jobs", json=job)).json()["worker_id"]
        body = {"payload": {}, "maxAttempts": 2, "backoffSeconds": 0}
        task = (await api.post(f"{JOBS}/rooms/lab/tasks/lab:modifiers:Rotate", json=body)).json()["id"]
        for _ in range(2):
            await api.post(f"{JOBS}/tasks/claim", json={"worker_id": worker, "limit": 1, "start": True})
            said = {"status": "failed", "error": "boom", "worker_id": worker}
            assert (await api.patch(f"{JOBS}/tasks/{task}", json=said)).status_code == 200
        await eventually(lambda: receiver.heard)
        (got,) = receiver.heard
        assert got.said["data"] == {"why": "boom", "taskId": task, "job": "lab:modifiers:Rotate"}
