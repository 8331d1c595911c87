"""Logging in to the console: what a login may do is what its credential may do, as far as its role goes."""

from __future__ import annotations

import hashlib
import json
import re

import httpx
import pytest

from hub.api.handling.browsers import Gate
from hub.errors import Forbidden
from hub.tokens.logins import IDLE_S, LIFE_S
from tests.api.streams import ENDLESS, listening
from tests.world import eventually, settings_for

SECRETS = {f"{role}_secret": f"{role}-secret-of-the-test" for role in ("runner", "node", "admin")}
ADMIN = {"x-hub-secret": SECRETS["admin_secret"]}
MARK = {"x-hub-console": "1", "x-hub-reason": "the%20night%20shift"}
OWN = {"origin": "https://hub", "sec-fetch-site": "same-origin", "content-type": "application/json"}
J = "/v1/joblib"


class Browser:
    """The requests of a page of the hub: with its cookie, and the header that no foreign page can send."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self.api = api
        self.cookie = ""

    async def log_in(self, secret: str, role: str = "admin", **body: str) -> httpx.Response:
        answer = await self.send("POST", "/console/session", {"secret": secret, "role": role, **body})
        if answer.status_code == 201:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    async def send(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        sent = {**MARK, **({"cookie": self.cookie} if self.cookie else {}), **headers}
        return await self.api.request(method, path, json=body, headers=sent)

    async def get(self, path: str) -> httpx.Response:
        return await self.send("GET", path)


@pytest.fixture
async def api(make_api):
    async with make_api(**SECRETS, anonymous_reads=False, borrow_queue_timeout_s=0) as found:
        found.cookies.clear()
        yield found


@pytest.fixture
def browser(api):
    return Browser(api)


async def test_logging_in_with_a_secret_sets_a_cookie_that_is_stored_as_a_digest(browser, redis):
    assert (await browser.get("/pools")).status_code == 401
    answer = await browser.log_in(SECRETS["admin_secret"])
    assert answer.status_code == 201
    kept = answer.headers["set-cookie"]
    assert re.match(r"hub_login=[\w-]{43}; HttpOnly; Max-Age=43200; Path=/; SameSite=strict$", kept), kept
    key = browser.cookie.partition("=")[2]
    stored = str(redis.hgetall("hub:logins"))
    assert key not in stored
    assert SECRETS["admin_secret"] not in stored
    assert hashlib.sha256(key.encode()).hexdigest() in stored
    assert [(await browser.get(path)).status_code for path in ("/pools", "/audit", "/console/settings")] == [200] * 3
    assert (await browser.send("PUT", "/admin/sweeper", {"expire": False})).status_code == 200


async def test_a_wrong_secret_and_the_node_secret_cannot_log_in(browser):
    assert (await browser.log_in("guessed")).status_code == 401
    assert (await browser.log_in(SECRETS["node_secret"])).status_code == 403
    assert (await browser.send("POST", "/console/session", {})).status_code == 400


async def test_over_tls_the_cookie_is_host_only_and_never_sent_in_plain_text(api):
    answer = await api.post(
        "https://hub/console/session", json={"secret": SECRETS["admin_secret"]}, headers={**MARK, **OWN}
    )
    assert re.match(r"__Host-hub_login=.*; Path=/; SameSite=strict; Secure$", answer.headers["set-cookie"])


@pytest.mark.parametrize(
    ("url", "host", "name"),
    [
        ("http://hub", "hub", "hub_login"),
        ("http://hub", "hub:80", "hub_login"),
        ("http://hub", "hub:443", "hub_login.443"),
        ("http://hub", "hub:8080", "hub_login.8080"),
        ("http://hub", "[::1]:8081", "hub_login.8081"),
        ("http://hub", "[::1]", "hub_login"),
        ("https://hub", "hub:443", "__Host-hub_login"),
        ("https://hub", "hub:8443", "__Host-hub_login.8443"),
    ],
)
async def test_the_cookie_is_named_by_the_port_that_the_browser_sees(api, url, host, name):
    headers = {**MARK, **OWN, "host": host, "origin": f"{url.partition(':')[0]}://{host}"}
    answer = await api.post(f"{url}/console/session", json={"secret": SECRETS["admin_secret"]}, headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.headers["set-cookie"].partition("=")[0] == name


async def test_a_login_at_one_hub_of_a_host_ends_no_login_at_another(browser):
    async def opens(host: str) -> int:
        return (await browser.send("GET", "/pools", cookie="; ".join(kept), host=host)).status_code

    kept = []
    for host in ("hub:8080", "hub:8081"):
        answer = await browser.send("POST", "/console/session", {"secret": SECRETS["admin_secret"]}, host=host)
        kept.append(answer.headers["set-cookie"].partition(";")[0])
    assert [await opens(host) for host in ("hub:8080", "hub:8081", "hub:8082")] == [200, 200, 401]


async def changing_routes(api: httpx.AsyncClient) -> list[tuple[str, str]]:
    """Return every route that changes something, from the router itself, those of the page included."""
    app = api._transport.app.app
    found = [
        (method, re.sub(r"\{(\w+)(?::\w+)?\}", "x", route.path))
        for route in app.routes
        for method in getattr(route, "methods", None) or ()
        if method not in ("GET", "HEAD", "OPTIONS")
    ]
    assert len(found) > 40
    return sorted(found)


BY_SECRET_ALONE = {"/console/session"}
# Logging in and out changes nothing that others see; pages renew by themselves while their user is away.
WITHOUT_A_REASON = {"/console/session", "/session/renew", "/bundles/x/renew"}


async def test_a_viewer_can_change_nothing_by_any_route(api, browser):
    await browser.log_in(SECRETS["admin_secret"], "viewer")
    assert (await browser.get("/nodes?detail=1")).status_code == 200
    for method, path in await changing_routes(api):
        if path not in BY_SECRET_ALONE:
            answer = await browser.send(method, path, {})
            assert (answer.status_code, "viewer" in answer.text) == (403, True), (method, path, answer.text)
    for private in ("/diagnostics/worker-env/x", "/console/leases/s1"):
        assert (await browser.get(private)).status_code == 403


async def test_a_change_with_a_cookie_needs_the_header_of_the_console(api, browser):
    await browser.log_in(SECRETS["admin_secret"])
    for method, path in await changing_routes(api):
        answer = await api.request(method, path, json={}, headers={"cookie": browser.cookie})
        assert answer.status_code == 403, (method, path, answer.text)


async def test_a_change_by_the_console_without_a_login_is_refused(api, browser):
    for method, path in await changing_routes(api):
        if path not in BY_SECRET_ALONE:
            answer = await browser.send(method, path, {})
            assert answer.status_code in (401, 403), (method, path, answer.text)


async def test_a_change_by_the_console_without_a_reason_is_refused(api, browser):
    await browser.log_in(SECRETS["admin_secret"])
    for method, path in await changing_routes(api):
        if path not in WITHOUT_A_REASON:
            for none in ("", "%20%20"):
                answer = await browser.send(method, path, {}, **{"x-hub-reason": none})
                assert (answer.status_code, answer.json()["status"]) == (422, 422), (method, path, answer.text)
                assert "no-reason" in answer.json().get("code", answer.json()["type"])
    assert (await browser.get("/audit?category=console&take=100")).json()[0]["action"] == "console.login"
    assert (await api.put("/admin/caps/gpu:a100", json={"cap": 3}, headers=ADMIN)).status_code == 200  # of a program
    assert (await browser.send("PUT", "/admin/caps/gpu:a100", {"cap": 3})).status_code == 200


async def test_on_an_open_hub_the_console_needs_a_reason_and_a_program_does_not(make_api):
    async with make_api() as api:
        page = await Browser(api).send("PUT", "/admin/caps/gpu:a100", {"cap": 3}, **{"x-hub-reason": ""})
        assert (page.status_code, page.json()["code"]) == (422, "no-reason")
        assert (await api.put("/admin/caps/gpu:a100", json={"cap": 3})).status_code == 200


FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "https://hub.evil.example", "sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda headers: " ".join(headers.values()))
async def test_a_page_of_another_site_can_change_nothing(api, browser, redis_server, foreign):
    """The browser sends an admin's cookie along; the other page can send neither JSON nor the console's header."""
    await browser.log_in(SECRETS["admin_secret"])
    api._transport.app._gate = Gate(settings_for(redis_server.url, **SECRETS))
    for method, path in await changing_routes(api):
        answer = await browser.send(method, path, {}, **foreign)
        assert (answer.status_code, "foreign" in answer.text) == (403, True), (method, path, answer.text)
    assert (await browser.send("PUT", "/admin/caps/gpu:a100", {"cap": 3}, **OWN)).status_code == 200


async def test_an_operator_can_act_and_cannot_make_tokens(browser):
    await browser.log_in(SECRETS["admin_secret"], "operator")
    assert (await browser.send("PUT", "/admin/caps/gpu:a100", {"cap": 3})).status_code == 200
    for method, path in (("POST", "/admin/tokens"), ("DELETE", "/console/logins/x"), ("POST", "/console/links")):
        assert (await browser.send(method, path, {})).status_code == 403


async def test_the_runner_secret_may_do_in_the_console_what_it_may_do_elsewhere(browser):
    await browser.log_in(SECRETS["runner_secret"])
    me = (await browser.get("/console/me")).json()
    assert (me["role"], me["may"]["look"], me["may"]["audit"], me["may"]["tokens"]) == ("operator", True, False, False)
    assert (await browser.get("/audit")).status_code == 401
    assert (await browser.send("PUT", "/admin/sweeper", {"expire": True})).status_code == 401


async def test_a_login_by_token_ends_with_the_token(api, browser):
    made = (await api.post("/admin/tokens", json={"user": "ann", "superuser": True}, headers=ADMIN)).json()
    await browser.log_in(made["token"])
    assert (await browser.get(f"{J}/workers")).status_code == 200
    assert (await browser.get("/console/me")).json()["login"]["name"] == "token of ann"
    assert made["token"] not in browser.cookie
    await api.delete(f"/admin/tokens/{made['id']}", headers=ADMIN)
    assert (await browser.get(f"{J}/workers")).status_code == 401


async def test_a_login_ends_when_its_secret_is_replaced(browser, make_api):
    await browser.log_in(SECRETS["admin_secret"])
    async with make_api(**{**SECRETS, "admin_secret": "another"}) as later:
        browser.api = later
        assert (await browser.get("/pools")).status_code == 401


async def test_write_access_to_redis_without_a_secret_gives_no_login(api, browser, redis):
    other = Browser(api)
    await browser.log_in(SECRETS["admin_secret"])
    await other.log_in(SECRETS["runner_secret"])
    assert [(await each.get("/pools")).status_code for each in (browser, other)] == [200, 200]
    kept = {name: json.loads(text) for name, text in redis.hgetall("hub:logins").items()}
    (admins,) = (each for each in kept.values() if each["name"].startswith("admin"))
    (theirs,) = (name for name, each in kept.items() if each["name"].startswith("runner"))
    redis.hset("hub:logins", theirs, json.dumps({**kept[theirs], "bound": admins["bound"], "name": admins["name"]}))

    async def refused() -> bool:
        return (await other.get("/audit")).status_code == (await other.get("/pools")).status_code == 401

    await eventually(refused)
    assert (await browser.get("/audit")).status_code == 200


async def test_logins_can_be_listed_and_ended(api, browser):
    await browser.log_in(SECRETS["admin_secret"])
    other = Browser(api)
    await other.log_in(SECRETS["admin_secret"], "viewer")
    listed = (await browser.get("/console/logins")).json()["logins"]
    assert sorted((each["role"], each["own"]) for each in listed) == [("admin", True), ("viewer", False)]
    (theirs,) = (each["id"] for each in listed if not each["own"])
    assert (await browser.send("DELETE", f"/console/logins/{theirs}")).status_code == 200
    assert (await other.get("/pools")).status_code == 401
    assert (await browser.send("DELETE", "/console/session")).json() == {"ended": True}
    assert (await browser.get("/pools")).status_code == 401


async def test_the_overview_shows_a_change_at_once_to_the_login_that_made_it(browser, monkeypatch):
    monkeypatch.setattr("hub.api.console.overview.FRESH_S", 3600)
    await browser.log_in(SECRETS["admin_secret"])
    expire = (await browser.get("/console/overview")).json()["sweeper"]["expire"]
    await browser.send("PUT", "/admin/sweeper", {"expire": not expire})
    assert (await browser.get("/console/overview")).json()["sweeper"]["expire"] is not expire


@pytest.mark.parametrize("path", ENDLESS)
async def test_the_stream_of_an_ended_login_ends_and_that_of_another_goes_on(path, api, browser, monkeypatch):
    monkeypatch.setattr("hub.api.callers.logins._STILL_S", 0.02)
    other, app = Browser(api), api._transport.app
    await browser.log_in(SECRETS["admin_secret"])
    theirs = (await other.log_in(SECRETS["admin_secret"])).json()["login"]["id"]
    async with listening(app, {"cookie": browser.cookie}, path) as mine, listening(app, {"cookie": other.cookie}, path):
        listeners = app.app.state.serving.live._listeners
        assert len(listeners) == 2
        await browser.send("DELETE", f"/console/logins/{theirs}")
        await eventually(lambda: len(listeners) == 1)
        await browser.send("PUT", "/admin/caps/gpu:a100", {"cap": 3})
        await mine.until(1)
        assert mine.names == ["cap.set"]


async def test_streams_whose_login_cannot_be_checked_any_more_end(api, browser, redis, monkeypatch):
    monkeypatch.setattr("hub.api.callers.logins._STILL_S", 0.02)
    await browser.log_in(SECRETS["admin_secret"])
    async with listening(api._transport.app, {"cookie": browser.cookie}):
        redis.set("hub:logins", "of another program")
        await eventually(lambda: not api._transport.app.app.state.serving.live._listeners)


@pytest.mark.parametrize(("seen_s", "made_s"), [(IDLE_S + 1, 0), (0, LIFE_S + 1)], ids=["idle", "too long"])
async def test_a_login_expires_after_its_time(browser, redis, seen_s, made_s):
    await browser.log_in(SECRETS["admin_secret"])
    ((name, text),) = redis.hgetall("hub:logins").items()
    at = float(re.search(r'"at_s":([0-9.]+)', text)[1])
    redis.hset("hub:logins", name, text.replace(f'"at_s":{at}', f'"at_s":{at - made_s}'))
    redis.zadd("hub:logins_seen", {name: at - seen_s})
    assert (await browser.get("/pools")).status_code == 401


async def test_a_login_link_works_once(api, browser, redis):
    made = (await api.post("/console/links", json={"role": "viewer"}, headers=ADMIN)).json()
    assert made["link"] not in str(redis.keys())
    assert made["link"] not in str(redis.hgetall("hub:login_links"))
    assert 0 < redis.ttl("hub:login_links") <= 300
    answer = await browser.send("POST", "/console/session", {"link": made["link"]})
    assert (answer.status_code, answer.json()["login"]["role"]) == (201, "viewer")
    browser.cookie = answer.headers["set-cookie"].partition(";")[0]
    assert (await browser.get("/pools")).status_code == 200
    assert (await Browser(api).send("POST", "/console/session", {"link": made["link"]})).status_code == 404
    logins = (await api.get("/audit?category=console", headers=ADMIN)).json()
    assert [each["details"]["bought"] for each in logins if each["action"] == "console.login"] == ["with a link"]


async def test_a_login_link_expires_after_five_minutes(api, browser, redis):
    made = (await api.post("/console/links", json={"role": "viewer"}, headers=ADMIN)).json()
    ((name, text),) = redis.hgetall("hub:login_links").items()
    at = float(re.search(r'"at_s":([0-9.]+)', text)[1])
    redis.hset("hub:login_links", name, text.replace(f'"at_s":{at}', f'"at_s":{at - 301}'))
    assert (await browser.send("POST", "/console/session", {"link": made["link"]})).status_code == 404


async def test_the_audit_log_has_each_change_of_the_console_with_its_reason(browser):
    await browser.log_in(SECRETS["admin_secret"])
    await browser.send("PUT", "/admin/caps/gpu:a100", {"cap": 3}, **{"x-hub-reason": "night%20shift%20%E2%80%93%20ann"})
    entry, login = (await browser.get("/audit?category=console")).json()
    assert (entry["action"], entry["by"], entry["details"]["path"]) == (
        "console.change", "admin secret", "/admin/caps/gpu:a100",
    )  # fmt: skip
    assert entry["details"]["reason"] == "night shift \u2013 ann"
    assert (login["action"], login["by"]) == ("console.login", "admin secret")


async def test_a_read_only_console_refuses_every_change(make_api):
    async with make_api(**SECRETS, console="readonly") as api:
        browser = Browser(api)
        await browser.log_in(SECRETS["admin_secret"])
        assert (await browser.get("/console/me")).json()["role"] == "viewer"
        assert (await browser.send("PUT", "/admin/sweeper", {"expire": True})).status_code == 403
        assert (await api.put("/admin/sweeper", json={"expire": True}, headers=ADMIN)).status_code == 200


def test_a_read_only_console_of_an_open_hub_refuses_every_change(redis_server):
    gate = Gate(settings_for(redis_server.url, console="readonly"))
    own = [(b"host", b"127.0.0.1:8080"), (b"origin", b"http://127.0.0.1:8080"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "PUT", "path": "/admin/sweeper", "headers": own}
    with pytest.raises(Forbidden, match="HUB_CONSOLE is readonly"):
        gate.check(scope, None)
    gate.check({**scope, "method": "GET"}, None)
    gate.check({**scope, "headers": own[:1]}, None)  # a program, no page


async def test_with_the_console_off_its_paths_are_not_found(make_api):
    async with make_api(**SECRETS, console="off") as api:
        assert [(await api.get(path)).status_code for path in ("/console/app.js", "/console/me")] == [404, 404]
        assert (await api.get("/", headers={"accept": "text/html"})).headers["location"] == "/dashboard"


async def test_an_open_hub_needs_no_login(make_api, redis_server):
    assert settings_for(redis_server.url).open_access
    async with make_api() as api:
        me = (await api.get("/console/me")).json()
        assert (me["open"], me["login"], me["role"], me["may"]["operate"]) == (True, None, "admin", True)


PAGE = {"accept": "text/html"}


async def test_the_root_path_serves_the_console_to_browsers_and_leaves_programs_alone(make_api):
    async with make_api(dashboard_url="http://dash:3001/") as api:
        assert "<title>capacity-hub</title>" in (await api.get("/", headers=PAGE)).text
        assert (await api.get("/")).headers["location"] == "/dashboard"
    async with make_api() as api:
        assert (await api.get("/dashboard")).headers["location"] == "./"
        page = await api.get("/", headers=PAGE)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "unsafe" not in policy
        assert (page.headers["x-content-type-options"], page.headers["referrer-policy"]) == ("nosniff", "no-referrer")
        again = await api.get(
            "/console/app.js", headers={"if-none-match": (await api.get("/console/app.js")).headers["etag"]}
        )
        assert again.status_code == 304
        for path in ("../settings.py", "__init__.py", "%2e%2e/api/app.py", "vendor/none.js"):
            assert (await api.get(f"/console/{path}")).status_code == 404
