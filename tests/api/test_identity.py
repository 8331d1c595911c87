"""How the jobs API identifies its callers, on a route of the test's own and on /admin/tokens."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import signal
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from hub.api.app import create_app
from hub.api.callers.admission import find_user
from hub.api.callers.caller import OPERATOR, READ, STRANGER
from hub.tokens.holders import REMEMBERED_S
from hub.tokens.models import user_of
from hub.wire import to_json
from tests.world import PATIENCE_S, SLACK_S, eventually, settings_for, wait_until

SECRETS = {"runner_secret": "runner-x", "node_secret": "node-x", "admin_secret": "admin-x"}
FILE = """
[[tokens]]
token = "root-file"
user = "root"
superuser = true

[[tokens]]
token = "ann-file"
user = "ann"
scopes = ["worker"]

[[tokens]]
token = "gone-file"
user = "gone"
superuser = true
active = false
"""


@pytest.fixture
def make_who(redis_server) -> Callable[..., Any]:
    """Clients of an application that tells who calls: `/who/SCOPE`, and `/reader` for what may be open to all."""

    @asynccontextmanager
    async def make(**changes: Any):
        edge = create_app(settings_for(**{"redis_url": redis_server.url, **changes}), sweep=False)

        async def who(request: Request):
            return said(await find_user(request, request.path_params["scope"]))

        async def read(request: Request):
            return said(await find_user(request, READ, strangers=True))

        edge.app.add_route("/who/{scope}", who)
        edge.app.add_route("/reader", read)
        made = httpx.AsyncClient(transport=httpx.ASGITransport(app=edge), base_url="http://hub")
        async with edge.app.router.lifespan_context(edge.app), made as client:
            yield client

    return make


def said(found):
    """Answer with it."""
    return Response(to_json(shown(found)), media_type="application/json")


def shown(found):
    if found is STRANGER:
        return None
    sets = {"scopes": sorted(found.scopes), "rooms": sorted(found.rooms), "labels": list(found.labels)}
    return {**dataclasses.asdict(found), **sets}


def person(name, *scopes, superuser=False, user=None):
    said = {"user": user or user_of(name), "superuser": superuser, "scopes": sorted(scopes), "name": name, "rooms": []}
    terms = {"team": "", "labels": [], "max_priority": None, "is_node": False, "commands": superuser}
    return {**said, **terms, "node": None, "token": ""}


OPEN = shown(OPERATOR)


def bearer(token):
    return {"authorization": f"Bearer {token}"}


async def ask(api, path="/who/read", **headers):
    """(status, who it is)."""
    answer = await api.get(path, headers=headers)
    if answer.status_code != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        return answer.status_code, None
    return 200, answer.json()


async def make(api, user="ann", headers=None, **wanted):
    answer = await api.post("/admin/tokens", json={"user": user, **wanted}, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.fixture
def tokens_file(tmp_path):
    path = tmp_path / "tokens.toml"
    path.write_text(FILE)
    return path


async def test_every_caller_of_an_open_hub_is_the_operator(make_who):
    async with make_who() as api:
        for headers in ({}, bearer("anything"), {"authorization": "nonsense"}, {"x-hub-secret": "anything"}):
            assert await ask(api, "/who/admin", **headers) == (200, OPEN)
            assert await ask(api, "/reader", **headers) == (200, OPEN)


async def test_a_token_of_the_store_identifies_its_user(make_who):
    ann = str(uuid4())
    async with make_who(**SECRETS) as api:
        admin = {"x-hub-secret": "admin-x"}
        plain = (await make(api, "bob", admin))["token"]
        other = (await make(api, "bob", admin))["token"]
        root = (await make(api, "Ann Ö", admin, userId=ann, superuser=True, scopes=["read", "admin"]))["token"]
        assert await ask(api, **bearer(plain)) == (200, person("bob"))
        assert await ask(api, **bearer(other)) == (200, person("bob"))
        hers = (200, person("Ann Ö", "read", "admin", superuser=True, user=UUID(ann).hex))
        assert await ask(api, **bearer(root)) == hers
        assert await ask(api, **{"x-hub-secret": root}) == hers
        assert await ask(api) == (401, None)
        assert await ask(api, **bearer(plain[:-1])) == (401, None)


async def test_a_token_of_the_file_identifies_its_user_unless_it_is_inactive(make_who, tokens_file):
    async with make_who(tokens_file=tokens_file) as api:
        assert await ask(api, **bearer("root-file")) == (200, person("root", superuser=True))
        assert await ask(api, "/who/worker", **bearer("ann-file")) == (200, person("ann", "worker"))
        assert await ask(api, **bearer("gone-file")) == (401, None)
        assert await ask(api) == (401, None)
        hers = (await make(api, "ann", bearer("root-file")))["token"]
        assert await ask(api, **bearer(hers)) == (200, person("ann"))


@pytest.mark.parametrize("scope", ["worker", "submit", "read", "admin"])
async def test_a_token_with_scopes_is_good_for_those_scopes_alone(make_who, scope):
    async with make_who(**SECRETS) as api:
        token = (await make(api, "ann", {"x-hub-secret": "admin-x"}, scopes=[scope], superuser=True))["token"]
        status = {s: (await ask(api, f"/who/{s}", **bearer(token)))[0] for s in ("worker", "submit", "read", "admin")}
        assert status == {s: 200 if s == scope else 403 for s in status}
        refused = (await api.get(f"/who/{'read' if scope == 'worker' else 'worker'}", headers=bearer(token))).json()
        assert refused["type"].endswith("/forbidden") or refused["code"] == "forbidden"
        assert scope in refused["detail"]


async def test_only_the_admin_secret_makes_its_caller_a_superuser(make_who):
    async with make_who(**SECRETS) as api:
        assert await ask(api, "/who/admin", **{"x-hub-secret": "admin-x"}) == (200, OPEN)
        for secret in ("runner-x", "node-x", "", "admin-", "ADMIN-X"):
            assert await ask(api, "/who/read", **{"x-hub-secret": secret}) == (401, None)
        assert await ask(api, "/who/read", **bearer("admin-x")) == (401, None)
    async with make_who(runner_secret="runner-x") as api:
        assert await ask(api, "/who/admin", **{"x-hub-secret": "runner-x"}) == (200, OPEN)


async def test_a_wrong_token_is_refused_even_beside_a_right_secret(make_who):
    async with make_who(**SECRETS) as api:
        assert await ask(api, **bearer("wrong"), **{"x-hub-secret": "admin-x"}) == (401, None)


MALFORMED = [
    b"", b" ", b"Bearer", b"Bearer ", b"Bearer  ", b"Basic %s", b"%s", b"Bearer%s", b"Bearer\t%s", b"Bearer %s x",
    b"Bearer %s,Bearer %s", b"Bearer: %s", b"Bearer=%s", b"Token %s", b"Bearer \"%s\"", b"Bearer <%s>",
    b"Bearer \xc3\xb6%s", b"Bearer \xff\xfe", b"\xff", b"Bearer " + b"x" * 20_000, b"Bearer null", b"Bearer undefined",
    b"Bearer *", b"Bearer %%00", b"Bearer {}", b"Bearer ../%s", b"Digest username=\"x\"",
]  # fmt: skip


@pytest.mark.parametrize("value", MALFORMED, ids=lambda value: repr(value)[:30])
async def test_a_header_without_a_bearer_token_makes_the_caller_a_stranger(make_who, value):
    async with make_who(**SECRETS) as api:
        token = (await make(api, "ann", {"x-hub-secret": "admin-x"}))["token"].encode()
        shown = value.replace(b"%s", token)
        for path, status in (("/who/read", 401), ("/reader", 200)):
            answer = await api.get(path, headers=[(b"authorization", shown)])
            assert (answer.status_code, answer.status_code == 200 and answer.json()) == (status, status == 200 and None)


async def test_the_bearer_scheme_is_read_in_any_case_and_two_headers_make_a_stranger(make_who):
    async with make_who(**SECRETS) as api:
        token = (await make(api, "ann", {"x-hub-secret": "admin-x"}))["token"]
        for value in (f"bearer {token}", f"BEARER   {token}", f"Bearer {token}  "):
            assert await ask(api, authorization=value) == (200, person("ann"))
        twice = [("authorization", f"Bearer {token}"), ("authorization", f"Bearer {token}")]
        assert (await api.get("/who/read", headers=twice)).status_code == 401


async def test_strangers_may_read_unless_the_setting_forbids_it(make_who, tokens_file):
    async with make_who(tokens_file=tokens_file) as api:
        assert await ask(api, "/reader") == (200, None)
        assert await ask(api, "/reader", **bearer("wrong")) == (200, None)
        assert await ask(api, "/reader", **bearer("gone-file")) == (200, None)
        assert await ask(api, "/reader", **bearer("ann-file")) == (200, person("ann", "worker"))
    async with make_who(tokens_file=tokens_file, anonymous_reads=False) as api:
        assert await ask(api, "/reader") == (401, None)
        assert await ask(api, "/reader", **bearer("wrong")) == (401, None)
        assert await ask(api, "/reader", **bearer("gone-file")) == (401, None)
        assert await ask(api, "/reader", **bearer("ann-file")) == (403, None)
        assert await ask(api, "/reader", **bearer("root-file")) == (200, person("root", superuser=True))
    async with make_who(anonymous_reads=False) as api:
        assert await ask(api, "/reader") == (200, OPEN)


async def test_the_first_token_closes_every_open_hub_within_a_second_and_the_last_one_reopens_it(make_who):
    async with make_who() as one, make_who() as other:
        assert await ask(one) == await ask(other) == (200, OPEN)
        made = await make(one, superuser=True)
        assert await ask(one) == (401, None)

        async def shut():
            return await ask(other) == (401, None)

        await eventually(shut, REMEMBERED_S + SLACK_S)
        assert (await other.post("/admin/tokens", json={"user": "eve"})).status_code == 401
        assert (await other.get("/admin/tokens")).status_code == 401
        assert (await other.get("/nodes")).status_code == 200
        gone = await other.delete(f"/admin/tokens/{made['id']}", headers=bearer(made["token"]))
        assert gone.json() == {"revoked": made["id"], "last": True}
        assert await ask(other) == (200, OPEN)


async def test_beyond_loopback_a_tokens_file_without_secrets_opens_the_jobs_api_and_borrowing_alone(
    make_who, tokens_file
):
    async with make_who(host="0.0.0.0", tokens_file=tokens_file) as api:
        assert await ask(api, **bearer("root-file")) == (200, person("root", superuser=True))
        assert (await api.get("/admin/tokens", headers=bearer("root-file"))).status_code == 200
        for headers in ({}, bearer("root-file"), {"x-hub-secret": "root-file"}):
            for method, path in (("GET", "/admin/caps"), ("POST", "/session/borrow"), ("POST", "/node/register")):
                answer = await api.request(method, path, json={"nodeId": "n1", "labelKey": "a:b"}, headers=headers)
                borrows = bool(headers) and path == "/session/borrow"  # a user may borrow; there is no such pool
                assert answer.status_code == (503 if borrows else 401), path
        assert await ask(api) == (401, None)
    tokens_file.write_text("")
    async with make_who(host="0.0.0.0", tokens_file=tokens_file) as api:
        assert await ask(api) == (401, None)
        assert (await api.post("/admin/tokens", json={"user": "eve"})).status_code == 401


async def test_a_revoked_token_is_refused_at_this_hub_at_once_and_at_others_within_a_second(make_who):
    async with make_who(**SECRETS) as one, make_who(**SECRETS) as other:
        admin = {"x-hub-secret": "admin-x"}
        made = await make(one, headers=admin)
        assert await ask(one, **bearer(made["token"])) == await ask(other, **bearer(made["token"]))
        answer = await one.delete(f"/admin/tokens/{made['id']}", headers=admin)
        assert (answer.status_code, answer.json()) == (200, {"revoked": made["id"], "last": True})
        assert await ask(one, **bearer(made["token"])) == (401, None)

        async def refused():
            return await ask(other, **bearer(made["token"])) == (401, None)

        await eventually(refused, REMEMBERED_S + SLACK_S)


async def test_while_redis_is_away_a_token_gets_503_and_is_not_called_unknown(make_who, own_redis, tokens_file):
    own = {"redis_url": own_redis.url}
    async with make_who(**own) as open_hub, make_who(**own, **SECRETS, tokens_file=tokens_file) as shut:
        assert await ask(open_hub) == (200, OPEN)
        token = (await make(shut, headers={"x-hub-secret": "admin-x"}))["token"]
        assert await ask(shut, **bearer(token)) == (200, person("ann"))
        own_redis.kill()

        async def away():
            return (await ask(shut, **bearer(token)), await ask(open_hub)) == ((503, None), (503, None))

        await eventually(away)  # until then it is remembered
        for path in ("/who/read", "/reader"):
            assert await ask(shut, path, **bearer(token)) == (503, None)
            assert await ask(shut, path, **bearer("wrong")) == (503, None)
            assert await ask(open_hub, path) == (503, None)
            assert await ask(shut, path, **bearer("root-file")) == (200, person("root", superuser=True))
        assert await ask(shut, **{"x-hub-secret": "admin-x"}) == (200, OPEN)
        assert await ask(shut) == (401, None)
        answer = await shut.get("/who/read", headers=bearer(token))
        assert int(answer.headers["retry-after"]) > 0
        for method, path in (
            ("GET", "/admin/tokens"),
            ("GET", "/admin/tokens/x"),
            ("POST", "/admin/tokens"),
            ("DELETE", "/admin/tokens/x"),
        ):
            refused = await shut.request(method, path, json={"user": "x"}, headers={"x-hub-secret": "admin-x"})
            assert (refused.status_code, refused.json()["code"]) == (503, "store-unavailable")
        own_redis.start()

        async def back():
            return await ask(shut, **bearer(token)) == (200, person("ann"))

        await eventually(back)


async def test_only_superusers_with_the_scope_may_make_tokens(make_who, tokens_file):
    async with make_who(**SECRETS, tokens_file=tokens_file) as api:
        admin = {"x-hub-secret": "admin-x"}
        shown_by = {
            401: [{}, {"x-hub-secret": "runner-x"}, {"x-hub-secret": "node-x"}, bearer("gone-file"), bearer("x")],
            403: [
                bearer((await make(api, headers=admin))["token"]),
                bearer((await make(api, headers=admin, scopes=["admin"]))["token"]),
                bearer((await make(api, headers=admin, scopes=["worker", "submit", "read"], superuser=True))["token"]),
            ],
            200: [admin, bearer("root-file"), bearer((await make(api, headers=admin, superuser=True))["token"])],
        }
        before = (await api.get("/admin/tokens", headers=admin)).json()
        for status, everybody in shown_by.items():
            for headers in everybody:
                assert (await api.get("/admin/tokens", headers=headers)).status_code == status
                if status != 200:
                    assert (await api.post("/admin/tokens", json={"user": "e"}, headers=headers)).status_code == status
                    refused = await api.delete(f"/admin/tokens/{before['tokens'][0]['id']}", headers=headers)
                    assert refused.status_code == status
        assert (await api.get("/admin/tokens", headers=admin)).json() == before


async def test_the_token_list_includes_tokens_of_the_file_and_shows_no_secret(make_who, tokens_file):
    async with make_who(**SECRETS, tokens_file=tokens_file) as api:
        admin = {"x-hub-secret": "admin-x"}
        first = await make(api, "ann", admin)
        second = await make(api, "bob", admin, superuser=True, scopes=["admin", "worker"])
        found = (await api.get("/admin/tokens", headers=admin)).json()
        listed = [{name: value for name, value in made.items() if name != "token"} for made in (second, first)]
        assert (found["total"], found["tokens"]) == (2, listed)
        assert {key: found["tokens"][0][key] for key in ("user", "userId", "superuser", "active", "scopes")} == {
            "user": "bob", "userId": str(UUID(user_of("bob"))), "superuser": True, "active": True,
            "scopes": ["worker", "admin"],
        }  # fmt: skip
        assert [(row["user"], row["active"], row["scopes"], row["createdAtUtc"]) for row in found["inFile"]] == [
            ("root", True, None, None), ("ann", True, ["worker"], None), ("gone", False, None, None),
        ]  # fmt: skip
        text = (await api.get("/admin/tokens", headers=admin)).text
        assert not [each for each in (first["token"], second["token"], "root-file", "ann-file") if each in text]
        page = (await api.get("/admin/tokens?offset=1&limit=1", headers=admin)).json()
        assert (page["total"], page["tokens"]) == (2, listed[1:])
        in_file = found["inFile"][0]["id"]
        for row in (listed[0], found["inFile"][0]):
            assert (await api.get(f"/admin/tokens/{row['id']}", headers=admin)).json() == row
        assert (await api.get("/admin/tokens/0123456789abcdef", headers=admin)).status_code == 404
        refused = await api.delete(f"/admin/tokens/{in_file}", headers=admin)
        assert (refused.status_code, "HUB_TOKENS_FILE" in refused.json()["detail"]) == (400, True)
        assert (await api.delete("/admin/tokens/0123456789abcdef", headers=admin)).status_code == 404


async def test_a_token_can_be_made_by_its_digest_and_the_call_repeated(make_who):
    async with make_who(**SECRETS) as api:
        admin = {"x-hub-secret": "admin-x"}
        digest = hashlib.sha256(b"my-own-secret").hexdigest()
        first = await make(api, headers=admin, sha256=digest)
        assert await make(api, headers=admin, sha256=digest.upper()) == first
        assert "token" not in first
        assert await ask(api, **bearer("my-own-secret")) == (200, person("ann"))
        other = await api.post("/admin/tokens", json={"user": "eve", "sha256": digest}, headers=admin)
        assert (other.status_code, other.json()["member"]) == (400, "sha256")
        assert (await api.get("/admin/tokens", headers=admin)).json()["total"] == 1


WISHES = [
    ({}, "user"), ({"user": None}, "user"), ({"user": ""}, "user"), ({"user": " ann"}, "user"), ({"user": 7}, "user"),
    ({"user": "x" * 201}, "user"), ({"user": "a\nb"}, "user"), ({"user": ["ann"]}, "user"), ({"user": True}, "user"),
    ({"userId": "7"}, "userId"), ({"userId": 7}, "userId"), ({"userId": ""}, "userId"), ({"userId": []}, "userId"),
    ({"superuser": "true"}, "superuser"), ({"superuser": 1}, "superuser"), ({"scopes": []}, "scopes"),
    ({"scopes": "admin"}, "scopes"), ({"scopes": ["all"]}, "scopes"), ({"scopes": [7]}, "scopes"),
    ({"scopes": [["admin"]]}, "scopes"), ({"scopes": {"admin": 1}}, "scopes"), ({"sha256": "x"}, "sha256"),
    ({"sha256": 7}, "sha256"), ({"sha256": "0" * 63}, "sha256"), ({"sha256": ""}, "sha256"),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "member"), WISHES, ids=lambda value: str(value)[:30])
async def test_an_impossible_token_is_refused_by_the_name_of_the_member_and_not_made(make_who, redis, wanted, member):
    async with make_who() as api:
        body = wanted if "user" in wanted or not wanted else {"user": "ann", **wanted}
        answer = await api.post("/admin/tokens", json=body)
        assert (answer.status_code, answer.json()["member"]) == (400, member)
        assert not redis.exists("hub:tokens", "audit:entries")


async def test_the_audit_log_names_who_made_and_revoked_a_token_without_its_secret(make_who, caplog):
    async with make_who(**SECRETS) as api:
        admin = {"x-hub-secret": "admin-x"}
        root = await make(api, "root", admin, superuser=True)
        made = await make(api, "ann", bearer(root["token"]), scopes=["worker"])
        assert (await api.delete(f"/admin/tokens/{made['id']}", headers=admin)).status_code == 200
        text = (await api.get("/audit", headers=admin)).text
        entries = (await api.get("/audit", headers=admin)).json()
    found = [(each["action"], each["actor"], each["details"]["id"], each["details"].get("scopes")) for each in entries]
    assert found == [
        ("token.revoke", "operator", made["id"], None),
        ("token.create", "root", made["id"], "worker"),
        ("token.create", "operator", root["id"], "all"),
    ]
    for secret in (root["token"], made["token"]):
        assert secret not in text + caplog.text


async def test_an_answer_with_a_secret_forbids_caching(make_who):
    async with make_who() as api:
        answer = await api.post("/admin/tokens", json={"user": "ann"})
        assert answer.headers["cache-control"] == "no-store"


async def test_each_of_a_thousand_concurrent_callers_gets_the_answer_for_its_own_token(make_who):
    async with make_who(**SECRETS) as api:
        admin = {"x-hub-secret": "admin-x"}
        tokens = [(await make(api, f"u{number}", admin))["token"] for number in range(10)]
        nonsense = base64.urlsafe_b64encode(b"nonsense" * 4).decode()
        shown = [tokens[number % 10] if number % 2 else f"{nonsense}{number}" for number in range(1000)]
        found = await asyncio.gather(*(ask(api, **bearer(token)) for token in shown))
        assert found == [(200, person(f"u{n % 10}")) if n % 2 else (401, None) for n in range(1000)]


def test_a_hub_rereads_its_tokens_file_on_sighup_and_keeps_the_old_one_if_the_new_is_bad(start_hub, tmp_path):
    path = tmp_path / "tokens.toml"
    path.write_text(FILE)
    hub = start_hub(HUB_TOKENS_FILE=str(path))

    def status(token):
        return httpx.get(f"{hub.url}/admin/tokens", headers=bearer(token), timeout=PATIENCE_S).status_code

    assert (status("root-file"), status("root-new"), status("gone-file")) == (200, 401, 401)
    path.write_text(FILE.replace("root-file", "root-new"))
    assert (status("root-file"), status("root-new")) == (200, 401)
    hub.signal(signal.SIGHUP)
    wait_until(lambda: status("root-new") == 200, why=hub.log)
    assert status("root-file") == 401
    path.write_text('[[tokens]]\ntoken = "root-bad"\nuser = 7\n')
    hub.signal(signal.SIGHUP)
    wait_until(lambda: "tokens file rejected" in hub.log(), why=hub.log)
    (line,) = [line for line in hub.log().splitlines() if "tokens file rejected" in line]
    assert " ERROR " in line
    assert f"{path}, entry 1: user must be" in line
    assert (status("root-new"), status("root-bad")) == (200, 401)
    assert not [secret for secret in ("root-file", "root-new", "root-bad", "ann-file") if secret in hub.log()]
    hub.signal(signal.SIGTERM)
    assert hub.process.wait(PATIENCE_S) in (0, -signal.SIGTERM)
