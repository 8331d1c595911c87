"""Users of an issuer at the HTTP API and in the console: what they may do, how a login is made, and how it ends."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from hub.tokens.logins import Logins
from tests.issuer import AUDIENCE, CLIENT, Issuer, Signer

RULES = """
[[rules]]
when = { groups = "admins" }
role = "admin"

[[rules]]
when = { groups = "ops" }
role = "operator"

[[rules]]
when = { groups = "ml" }
role = "viewer"
scopes = ["read"]

[[rules]]
when = { groups = "robots" }
scopes = ["submit"]
"""
SECRETS = {f"{role}_secret": f"{role}-secret-of-the-test" for role in ("runner", "node", "admin")}
MARK = {"x-hub-console": "1", "x-hub-reason": "test"}
JOBS = "/v1/joblib/rooms/@global/jobs"
PUBLIC = "https://hub.example"


@pytest.fixture(scope="module")
def running():
    with Issuer() as found:
        yield found


@pytest.fixture
def issuer(running):
    running.user = {"sub": "u-1", "preferred_username": "ann", "groups": ["ml"]}
    running.secret = running.redirect_error = ""
    return running


@pytest.fixture
def settings_of(issuer, tmp_path):
    def settings(rules: str = RULES, **changes):
        (tmp_path / "rules.toml").write_text(rules)
        return {
            "oidc_issuer": issuer.url, "oidc_client_id": CLIENT, "oidc_audience": AUDIENCE, "public_url": PUBLIC,
            "oidc_rules_file": tmp_path / "rules.toml", "anonymous_reads": False, **SECRETS, **changes,
        }  # fmt: skip

    return settings


@pytest.fixture
async def api(make_api, settings_of):
    async with make_api(**settings_of()) as found:
        yield found


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class Browser:
    """A browser that goes to the issuer and comes back; it keeps cookies by name."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self.api, self.cookies = api, {}

    async def open(self, path: str, **headers: str) -> httpx.Response:
        """Follow a link to the hub."""
        return await self.send("GET", path, **headers)

    async def send(self, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        """Send what a page of the hub sends."""
        shown = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        self.api.cookies.clear()
        answer = await self.api.request(
            method, path, json=body, headers={**MARK, **({"cookie": shown} if shown else {}), **headers}
        )
        for each in answer.headers.get_list("set-cookie"):
            name, _, value = each.partition(";")[0].partition("=")
            self.cookies.pop(name, None)
            if value.strip('"'):
                self.cookies[name] = value
        return answer

    async def at_issuer(self) -> str:
        """Begin a login, log in at the issuer, and return the link back to the hub."""
        begun = await self.open("/console/oidc/login")
        assert begun.status_code == 303, begun.text
        async with httpx.AsyncClient() as outside:
            back = (await outside.get(begun.headers["location"])).headers["location"]
        return back.removeprefix(PUBLIC)

    async def log_in(self) -> httpx.Response:
        """Log in by the issuer."""
        return await self.open(await self.at_issuer())


@pytest.fixture
def browser(api):
    return Browser(api)


async def test_an_access_token_is_the_user_of_its_rule(api, issuer):
    reader = bearer(issuer.token())
    assert (await api.get(JOBS, headers=reader)).status_code == 200
    job = {"category": "analysis", "name": "count", "schema": {}}
    refused = await api.put(JOBS, json=job, headers=reader)
    assert (refused.status_code, "scope worker" in refused.text) == (403, True)
    assert (await api.get(JOBS, headers={"x-hub-secret": issuer.token()})).status_code == 200
    assert (await api.get("/admin/tokens", headers=bearer(issuer.token(groups=["admins"])))).status_code == 200
    assert (await api.get("/admin/tokens", headers=reader)).status_code == 403
    assert (await api.get("/audit", headers=bearer(issuer.token(groups=["admins"])))).status_code == 401


async def test_refusals_say_why(api, issuer):
    for token, status, why in (
        (issuer.token(exp=1), 401, "expired"),
        (issuer.token(nbf=4e9, exp=5e9), 401, "not valid yet"),
        (issuer.token(aud="x"), 401, "audience"),
        (issuer.token(Signer("k1")), 401, "signature"),
        (issuer.token(groups=["sales"]), 403, "No rule of this hub"),
    ):
        answer = await api.get(JOBS, headers=bearer(token))
        assert (answer.status_code, why in answer.json()["detail"]) == (status, True), answer.text


async def test_new_logins_are_503_while_the_issuer_is_away_and_known_users_go_on(api, issuer, browser):
    await browser.log_in()
    token = issuer.token()
    assert (await api.get(JOBS, headers=bearer(token))).status_code == 200
    back = await browser.at_issuer()
    issuer.stop()
    try:
        assert (await api.get(JOBS, headers=bearer(token))).status_code == 200
        assert (await api.get(JOBS, headers=bearer(issuer.token(sub="u-2")))).status_code == 200
        assert (await browser.open("/pools")).status_code == 200
        late = await browser.open(back)
        assert (late.status_code, "does not answer" in late.text) == (503, True)
    finally:
        issuer.start()


async def test_the_audit_log_names_the_user_and_the_issuer(api, issuer, browser):
    admin = bearer(issuer.token(groups=["admins"]))
    assert (await api.post("/admin/tokens", json={"user": "bob"}, headers=admin)).status_code == 201
    issuer.user["groups"] = ["admins"]
    await browser.log_in()
    assert (await browser.send("PUT", "/admin/sweeper", {"expire": False})).status_code == 200
    title = f"login of ann at {issuer.url}"
    audit = (await browser.open("/audit")).json()
    by = {each["action"]: each["by"] for each in audit if each.get("by")}
    assert [by[name] for name in ("token.create", "console.login", "console.change")] == [title] * 3, audit


async def test_a_login_by_the_issuer_asks_for_a_code_with_pkce_and_an_exact_address(browser, issuer):
    begun = await browser.open("/console/oidc/login?next=https://evil.example&redirect_uri=https://evil.example")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begun.headers["location"]).query).items()}
    assert begun.headers["location"].startswith(f"{issuer.url}/authorize?")
    assert asked.pop("state") != asked.pop("nonce")
    assert len(asked.pop("code_challenge")) == 43
    assert asked == {
        "response_type": "code", "client_id": CLIENT, "redirect_uri": f"{PUBLIC}/console/oidc/callback",
        "scope": "openid profile email", "code_challenge_method": "S256", "audience": AUDIENCE,
    }  # fmt: skip


async def test_cookies_of_the_login_are_kept_from_scripts_and_other_sites(api, issuer):
    api.base_url = "https://hub.example"
    browser = Browser(api)
    begun = await browser.open("/console/oidc/login")
    kept = begun.headers["set-cookie"]
    assert re.match(r"__Host-hub_oidc=[\w.-]{131}; HttpOnly; Max-Age=600; Path=/; SameSite=lax; Secure$", kept), kept
    made = await browser.log_in()
    login, over = made.headers.get_list("set-cookie")
    assert re.match(r"__Host-hub_login=[\w-]{43}; HttpOnly; Max-Age=28800; Path=/; SameSite=strict; Secure$", login), (
        login
    )
    assert over.startswith('__Host-hub_oidc=""; HttpOnly; Max-Age=0')
    assert (made.status_code, made.headers["location"]) == (303, "../../")


@pytest.mark.parametrize(
    ("group", "looks", "changes", "tokens"),
    [("admins", 200, 200, 201), ("ops", 200, 200, 403), ("ml", 200, 403, 403)],
)
async def test_the_role_of_the_rule_bounds_the_login(browser, issuer, group, looks, changes, tokens):
    issuer.user["groups"] = [group]
    assert (await browser.log_in()).status_code == 303
    assert (await browser.open("/pools")).status_code == looks
    assert (await browser.open(JOBS)).status_code == looks
    assert (await browser.send("PUT", "/admin/sweeper", {"expire": True})).status_code == changes
    assert (await browser.send("POST", "/admin/tokens", {"user": "x"})).status_code == tokens
    me = (await browser.open("/console/me")).json()
    assert (me["oidc"], me["role"], me["login"]["name"]) == (
        True, {"admins": "admin", "ops": "operator", "ml": "viewer"}[group], f"login of ann at {issuer.url}",
    )  # fmt: skip


@pytest.mark.parametrize(("group", "why"), [("robots", "no role in the console"), ("sales", "No rule of this hub")])
async def test_a_user_without_a_role_gets_no_login_and_is_told(browser, issuer, group, why):
    issuer.user["groups"] = [group]
    answer = await browser.log_in()
    assert (answer.status_code, why in answer.text) == (403, True), answer.text
    assert not browser.cookies


async def test_a_code_arrives_twice_late_elsewhere_and_with_a_foreign_state(browser, issuer, api):
    back = await browser.at_issuer()
    begun, victim = dict(browser.cookies), Browser(api)
    stranger = await victim.open(back)  # login CSRF: the code of an attacker in the browser of a victim
    assert (stranger.status_code, "not begun in this browser" in stranger.text) == (400, True)
    await victim.open("/console/oidc/login")
    assert (await victim.open(back)).status_code == 400
    assert (await browser.open(back)).status_code == 303
    twice = await browser.open(back)
    assert (twice.status_code, "finished already" in twice.text) == (400, True)
    browser.cookies |= begun  # the state is replayed with its cookie: the code is used up
    replayed = await browser.open(back)
    assert (replayed.status_code, "invalid_grant" in replayed.text) == (403, True)


async def test_a_code_of_another_login_of_the_browser_is_refused_by_its_nonce(browser, issuer, monkeypatch):
    bundle = issuer._bundle
    monkeypatch.setattr(issuer, "_bundle", lambda **claims: bundle(nonce="another"))
    answer = await browser.log_in()
    assert (answer.status_code, "another login" in answer.text) == (401, True)


async def test_a_login_begun_at_one_hub_is_finished_at_another(make_api, settings_of, issuer):
    async with make_api(**settings_of()) as one, make_api(**settings_of()) as other:
        first, second = Browser(one), Browser(other)
        back = await first.at_issuer()
        second.cookies = first.cookies
        assert (await second.open(back)).status_code == 303
        first.cookies = second.cookies
        assert (await first.open("/pools")).status_code == 200


async def test_an_issuer_that_refuses_is_named_and_no_text_of_a_link_is_shown(browser, issuer):
    issuer.redirect_error = "access_denied"
    answer = await browser.log_in()
    assert (answer.status_code, "access_denied" in answer.text) == (403, True)
    issuer.redirect_error = "<b>Call 0900</b>"
    answer = await browser.log_in()
    assert (answer.status_code, "0900" in answer.text) == (403, False)
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_a_client_with_a_secret_shows_it_to_the_issuer_alone(make_api, settings_of, issuer):
    from pydantic import SecretStr

    issuer.secret = "client-s3cret"
    async with make_api(**settings_of(oidc_client_secret=SecretStr("client-s3cret"))) as api:
        browser = Browser(api)
        assert (await browser.log_in()).status_code == 303
        assert "client-s3cret" not in (await api.get("/oidc")).text
    async with make_api(**settings_of(oidc_client_secret=SecretStr("wrong"))) as api:
        assert (await Browser(api).log_in()).status_code == 403


async def test_logging_out_ends_the_login_here_and_on_other_hubs(browser, api, redis):
    await browser.log_in()
    kept = dict(browser.cookies)
    assert (await browser.send("DELETE", "/console/session")).json() == {"ended": True}
    browser.cookies = kept
    assert (await browser.open("/pools")).status_code == 401
    assert redis.hlen("hub:logins") == 0


async def test_a_login_ends_after_its_longest_life(make_api, settings_of, issuer, monkeypatch):
    async with make_api(**settings_of(oidc_login_s=600.0)) as api:
        browser = Browser(api)
        await browser.log_in()
        assert (await browser.open("/pools")).status_code == 200
        store = api._transport.app.app.state.serving.hub.store
        now = store.wall_s()
        for ahead, status in ((590, 200), (601, 401)):
            monkeypatch.setattr(store, "wall_s", lambda at=now + ahead: at)
            api._transport.app.app.state.logins.logins = Logins(store)
            assert (await browser.open("/pools")).status_code == status


async def test_a_login_follows_the_rules_of_the_hub_that_is_asked(make_api, settings_of, issuer, tmp_path):
    issuer.user["groups"] = ["admins"]
    less = RULES.replace('role = "admin"', 'role = "viewer"')
    async with make_api(**settings_of()) as api:
        browser = Browser(api)
        await browser.log_in()
    for rules, looks, changes in ((less, 200, 403), (RULES, 200, 200), ('[[rules]]\nwhen = { sub = "x" }', 401, 401)):
        async with make_api(**settings_of(rules)) as api:
            browser.api = api
            assert (await browser.open("/pools")).status_code == looks
            assert (await browser.send("PUT", "/admin/sweeper", {"expire": True})).status_code == changes
    async with make_api(**SECRETS) as api:  # a hub without the issuer
        browser.api = api
        assert (await browser.open("/pools")).status_code == 401


async def test_a_hub_without_an_issuer_takes_no_jwt_and_asks_nobody(make_api, issuer):
    before = sum(issuer.asked.values())
    async with make_api(**SECRETS, anonymous_reads=False) as api:
        assert (await api.get(JOBS, headers=bearer(issuer.token()))).status_code == 401
        assert (await api.get("/oidc")).status_code == 404
        for path in ("login", "callback"):
            answer = await api.get(f"/console/oidc/{path}")
            assert (answer.status_code, "HUB_" in answer.text) == (404, True)
        assert (await api.get("/console/me")).json()["oidc"] is False
    assert sum(issuer.asked.values()) == before


async def test_a_hub_with_an_issuer_and_no_secret_is_not_open(make_api, settings_of, issuer):
    async with make_api(**{**settings_of(), **dict.fromkeys(SECRETS)}) as api:
        assert [(await api.get(path)).status_code for path in ("/pools", JOBS)] == [401, 401]
        issuer.user["groups"] = ["admins"]
        browser = Browser(api)
        await browser.log_in()
        assert (await browser.open("/pools")).status_code == 200


async def test_what_clients_must_know_is_open_to_all_and_holds_no_secret(api, issuer):
    assert (await api.get("/oidc")).json() == {
        "issuer": issuer.url, "clientId": CLIENT, "audience": AUDIENCE,
        "scopes": ["openid", "profile", "email", "offline_access"],
    }  # fmt: skip


async def test_a_user_of_the_issuer_holds_what_it_borrows(make_api, settings_of, issuer):
    rules = (
        "[[rules]]\nwhen = { groups = 'ml' }\nteam = 'vision'\nrole = 'operator'\nscopes = ['borrow']\n"
        "labels = ['gpu:*']\nmax_priority = 5\n[[rules]]\nwhen = {}\nscopes = ['read']\n"
    )
    async with make_api(**settings_of(rules)) as api:
        node = {"x-hub-secret": SECRETS["node_secret"]}
        slots = [{"labelKey": "gpu:a100", "slotId": f"s{number}"} for number in range(2)]
        body = {"nodeId": "n1", "policy": "reuse", "slots": slots}
        assert (await api.post("/node/register", json=body, headers=node)).status_code == 200
        ann, bob = bearer(issuer.token()), bearer(issuer.token(sub="u-2", preferred_username="bob"))
        wanted = {"labelKey": "gpu:a100", "runId": "r1"}
        lent = await api.post("/session/borrow", json=wanted, headers=ann)
        assert lent.status_code == 200, lent.text
        browser = Browser(api)
        await browser.log_in()
        mine = await browser.send("POST", "/session/borrow", {**wanted, "runId": "r2"})
        assert mine.status_code == 200, mine.text
        rows = (await browser.open("/sessions")).json()
        holders = {row["holder"]["user"]: row["holder"]["team"] for row in rows.get("sessions", rows.get("items", []))}
        assert holders == {"ann": "vision"}, rows
        for refused, status, code in (
            ({"labelKey": "phone:x", "runId": "r"}, 403, "label"),
            ({**wanted, "priority": 6}, 403, "priority"),
        ):
            answer = await api.post("/session/borrow", json=refused, headers=ann)
            assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
        slot = lent.json()["browserId"]
        end = {"labelKey": "gpu:a100", "browserId": slot, "runId": "r1"}
        foreign = await api.post("/session/return", json=end, headers=bob)
        assert (foreign.status_code, foreign.json()["code"]) == (403, "not-holder"), foreign.text
        reader = bearer(issuer.token(groups=["x"]))
        assert (await api.post("/session/borrow", json=wanted, headers=reader)).status_code == 403
        again = bearer(issuer.token(jti="another token of the same user"))
        assert (await api.post("/session/return", json=end, headers=again)).status_code == 200
