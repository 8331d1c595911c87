"""Access tokens of an issuer that the tests run: which are taken, and how often the issuer is asked."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hub.errors import Forbidden, Unauthorized
from hub.settings import Settings
from hub.tokens.models import Holder, user_of
from hub.tokens.oidc import issuer as issuer_module
from hub.tokens.oidc import keys as keys_module
from hub.tokens.oidc.issuer import IssuerAway, TokenOver
from hub.tokens.oidc.users import TOKEN_MAX, OidcUsers
from tests.issuer import AUDIENCE, CLIENT, Issuer, Signer
from tests.world import eventually

RULES = """
[[rules]]
when = { groups = "ml" }
role = "operator"
team = "ml"
scopes = ["read", "submit"]
"""


class Times:
    """Clocks that tests set: the time of Redis, and that by which the age of keys is measured."""

    def __init__(self) -> None:
        self.wall, self.passed = time.time(), 1000.0


@pytest.fixture
def times():
    return Times()


@pytest.fixture
def issuer():
    with Issuer() as found:
        yield found


@pytest.fixture
async def users(issuer, times, tmp_path):
    (tmp_path / "rules.toml").write_text(RULES)
    settings = Settings(
        oidc_issuer=issuer.url, oidc_client_id=CLIENT, oidc_audience=AUDIENCE, oidc_rules_file=tmp_path / "rules.toml"
    )
    found = OidcUsers(settings, lambda: times.wall)
    found.keys._clock = lambda: times.passed
    yield found
    await found.keys.close()


def unsigned(claims: dict, header: dict, key: bytes = b"") -> str:
    """Return a token with any header, signed by HMAC with the key if there is one."""
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (header, claims)]
    text = b".".join(parts)
    signature = hmac.digest(key, text, "sha256") if key else b""
    return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


async def test_a_token_of_the_issuer_is_its_user(issuer, users):
    found = await users.find(issuer.token())
    ann = Holder("ann", user_of(f"oidc\n{issuer.url}\nu-1"), scopes=frozenset({"read", "submit"}), team="ml")
    assert (found.holder, found.role, found.title) == (
        ann,
        "operator",
        f"login of ann at {issuer.url}",
    )
    again = await users.find(issuer.token(exp=time.time() + 9, preferred_username="renamed"))
    assert (again.holder.user, again.holder.name) == (ann.user, "renamed")
    assert (await users.find(issuer.token(sub="u-2"))).holder.user != ann.user


async def test_the_check_is_made_once_in_the_life_of_a_token(issuer, users, monkeypatch):
    token, checked = issuer.token(), []
    check = users.keys.claims
    monkeypatch.setattr(users.keys, "claims", lambda text: checked.append(text) or check(text))
    assert len({(await users.find(token)).holder for _ in range(50)}) == 1
    assert checked == [token]


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"aud": "another"}, "audience"), ({"aud": None}, "audience"), ({"aud": ["x", "y"]}, "audience"),
        ({"iss": "https://other.example"}, "another issuer"), ({"iss": None}, "another issuer"),
        ({"exp": None}, "exp"), ({"exp": "tomorrow"}, "exp"), ({"nbf": "now"}, "nbf"), ({"events": {}}, "event"),
    ],
)  # fmt: skip
async def test_a_token_for_another_place_is_refused_with_the_reason(issuer, users, claims, why):
    with pytest.raises(Unauthorized, match=why):
        await users.find(issuer.token(**claims))
    assert await users.find(issuer.token(aud=["x", AUDIENCE]))


async def test_the_edges_of_the_skew_are_a_minute_on_both_sides(issuer, users, times):
    now = times.wall = float(int(times.wall))
    short = issuer.token(exp=now, nbf=now)
    for ahead, taken in ((-60, True), (59.9, True), (60, False), (-60.1, False), (0, True)):
        times.wall = now + ahead
        if taken:
            assert (await users.find(short)).holder.name == "ann", ahead
        else:
            with pytest.raises(TokenOver, match="expired" if ahead > 0 else "not valid yet"):
                await users.find(short)


async def test_only_the_signature_of_a_key_of_the_issuer_counts(issuer, users):
    issuer.keys.append(Signer("k2", "EC"))
    good, now = issuer.token(), time.time()
    claims = {**issuer.user, "iss": issuer.url, "aud": AUDIENCE, "exp": now + 600}
    assert await users.find(good)
    rsa_key, ec_key = issuer.keys
    public = json.dumps(rsa_key.jwk).encode()
    pem = rsa_key.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    stranger, other = Signer("k1"), issuer.token(rsa_key, sub="u-9")
    header, _, signature = good.split(".")
    forged = {
        "alg none": unsigned(claims, {"alg": "none", "kid": "k1"}),
        "alg None": unsigned(claims, {"alg": "NONE", "kid": "k1"}),
        "HS256 by the PEM": unsigned(claims, {"alg": "HS256", "kid": "k1"}, pem),
        "HS256 by the JWK": unsigned(claims, {"alg": "HS256", "kid": "k1"}, public),
        "no algorithm": unsigned(claims, {"kid": "k1"}, pem),
        "a stranger's key under its kid": jwt.encode(claims, stranger.private, "RS256", headers={"kid": "k1"}),
        "a key of another kind": jwt.encode(claims, ec_key.private, "ES256", headers={"kid": "k1"}),
        "the stranger's key in the header": jwt.encode(
            claims, stranger.private, "RS256", headers={"kid": "k1", "jwk": stranger.jwk}
        ),
        "another payload": ".".join((header, other.split(".")[1], signature)),
        "no signature": good.rpartition(".")[0] + ".",
        "no JWT": "ey.ey.ey",
    }  # fmt: skip
    for what, token in forged.items():
        with pytest.raises(Unauthorized):
            raise AssertionError(f"{what} was taken: {await users.find(token)}")


async def test_headers_that_name_a_place_of_keys_are_not_followed_and_critical_ones_are_refused(issuer, users):
    with Issuer() as stranger:
        for name in ("jku", "x5u"):
            assert await users.find(issuer.token(headers={name: f"{stranger.url}/keys"}))
            with pytest.raises(Unauthorized):
                await users.find(issuer.token(stranger.keys[0], headers={name: f"{stranger.url}/keys"}))
        assert not stranger.asked
    for header in ({"crit": ["exp"], "exp": 1}, {"crit": []}, {"typ": "logout+jwt"}, {"kid": "k" * 600}):
        with pytest.raises(Unauthorized):
            await users.find(issuer.token(headers=header))


async def test_a_key_declared_for_one_algorithm_signs_with_no_other(issuer, users):
    key = issuer.keys[0]
    issuer.jwks = {"keys": [{**key.jwk, "alg": "RS256"}]}
    assert await users.find(issuer.token())
    key.algorithm = "PS256"
    with pytest.raises(Unauthorized, match="algorithm"):
        await users.find(issuer.token())


@pytest.mark.parametrize(
    "change",
    [{"use": "enc"}, {"key_ops": ["sign"]}, {"kty": "oct", "k": "AAAA"}, {"n": 7}, {"kid": 7}, {"alg": "HS256"}],
)
async def test_a_key_that_is_not_for_signatures_is_none(issuer, users, change):
    issuer.jwks = {"keys": [None, 7, {**issuer.keys[0].jwk, **change}]}
    with pytest.raises(Unauthorized):
        await users.find(issuer.token())


async def test_short_keys_of_the_issuer_are_not_taken(issuer, users):
    issuer.keys[0].private = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        token = issuer.token()
    with pytest.raises(Unauthorized):
        await users.find(token)


async def test_a_token_that_is_too_long_is_refused_unread(issuer, users):
    with pytest.raises(Unauthorized, match=str(TOKEN_MAX)):
        await users.find(issuer.token(more="x" * TOKEN_MAX))
    assert not issuer.asked


async def test_a_rotated_key_is_fetched_when_its_first_token_comes(issuer, users, times):
    old = issuer.token()
    assert await users.find(old)
    issuer.keys = [Signer("k2", "EC")]
    times.passed += keys_module.ASKED_S
    assert await users.find(issuer.token())
    assert issuer.asked["/keys"] == 2
    with pytest.raises(Unauthorized):  # its key is gone
        await users.find(old)


async def test_unknown_keys_make_one_fetch_a_minute_however_many_come_at_once(issuer, users, times):
    unknown = [issuer.token(headers={"kid": f"u{number}"}) for number in range(40)]

    async def flood() -> None:
        found = await asyncio.gather(*(users.find(each) for each in unknown), return_exceptions=True)
        assert {type(each) for each in found} == {Unauthorized}

    for minute in (1, 2, 3):
        for seconds in (0, 30, 59.9):
            times.passed = 1000.0 + minute * 60 + seconds
            await flood()
        assert issuer.asked["/keys"] == minute
    assert await users.find(issuer.token())


async def test_known_keys_go_on_while_the_issuer_is_away_and_unknown_ones_are_503(issuer, users, times):
    first = issuer.token()
    assert await users.find(first)
    issuer.stop()
    times.passed += keys_module.READ_S
    assert await users.find(first)
    assert await users.find(issuer.token(sub="u-2"))  # begins a read in the background, which fails
    await eventually(lambda: users.keys._reading is None)
    assert await users.find(issuer.token(sub="u-3"))
    issuer.keys.append(Signer("k2"))
    with pytest.raises(IssuerAway):
        await users.find(issuer.token())
    issuer.start()
    times.passed += keys_module.ASKED_S
    assert await users.find(issuer.token())


async def test_an_issuer_away_from_the_start_is_503_and_asked_again_soon(issuer, users, times, monkeypatch):
    issuer.stop()
    for _ in range(3):
        with pytest.raises(IssuerAway) as refused:
            await users.find(issuer.token())
    assert (refused.value.status, refused.value.retry_after_s) == (503, 5.0)
    issuer.start()
    monkeypatch.setattr(issuer_module, "AGAIN_S", 0)
    times.passed += keys_module.AGAIN_S
    assert await users.find(issuer.token())


async def test_an_issuer_that_hangs_holds_nobody_longer_than_the_bound(issuer, users, monkeypatch):
    monkeypatch.setattr(issuer_module, "ANSWER_S", 0.2)
    issuer.hangs = True
    began = time.monotonic()
    with pytest.raises(IssuerAway):
        await users.find(issuer.token())
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "shown", [b'{"keys": [' + b" " * issuer_module.ANSWER_MAX + b"]}", b"[]", b"<html>", b'{"keys": 1}']
)
async def test_keys_that_are_no_keys_or_have_no_end_are_an_issuer_that_is_away(issuer, users, shown):
    issuer.jwks = shown
    with pytest.raises(IssuerAway):
        await users.find(issuer.token())


async def test_of_very_many_keys_the_first_hundred_count(issuer, users):
    issuer.jwks = {"keys": [{**issuer.keys[0].jwk, "kid": f"x{number}"} for number in range(200)]}
    assert await users.find(issuer.token(headers={"kid": "x99"}))
    with pytest.raises(Unauthorized):
        await users.find(issuer.token(headers={"kid": "x100"}))


async def test_a_user_without_a_rule_is_403_that_says_so(issuer, users):
    for _ in range(2):
        with pytest.raises(Forbidden, match=f"No rule of this hub .* fits bob of {issuer.url}"):
            await users.find(issuer.token(groups=["sales"], preferred_username="bob"))
    with pytest.raises(Forbidden, match="sub"):
        await users.find(issuer.token(sub=None))


async def test_the_memory_of_checked_tokens_is_bounded(issuer, users, monkeypatch):
    monkeypatch.setattr("hub.tokens.oidc.users.KEPT_MAX", 5)
    for number in range(12):
        await users.find(issuer.token(sub=f"u{number}"))
    assert len(users._kept) == 5


async def test_texts_that_are_no_jwt_are_left_to_others(users, issuer):
    assert [await users.find(text) for text in ("", "hub_abc", "a.b.c", "x" * 600)] == [None] * 4
    assert not issuer.asked
