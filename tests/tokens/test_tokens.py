"""Tokens in the store: made, found, listed, revoked, and nothing of a secret kept."""

from __future__ import annotations

import asyncio

import pytest

from hub.errors import InvalidValue, NotFound
from hub.tokens.models import Holder, Token, digest_of, id_of, new_secret, user_of
from tests.world import picture

ANN = Holder("ann", user_of("ann"), superuser=True, scopes=frozenset({"admin", "read"}))
BOB = Holder("Bob Ö", user_of("Bob Ö"))
NOT_A_SECRET = ["", " ", "x", "hub_", "a b", "ö", "\x00", "\udcff", "x" * 513, "x" * 100_000, "0" * 64, "*", "hub_x\n"]


async def make(hub, holder) -> tuple[str, Token]:
    secret = new_secret()
    return secret, await hub.tokens.create(holder, digest_of(secret))


async def test_a_token_identifies_its_holder(hub):
    first, second, third = [(await make(hub, holder))[0] for holder in (ANN, BOB, BOB)]
    assert [await hub.tokens.resolve(secret) for secret in (first, second, third)] == [ANN, BOB, BOB]
    assert [await hub.tokens.resolve(secret) for secret in (first[:-1], first + "x", first.lower())] == [None] * 3


def test_secrets_of_tokens_are_long_and_unique():
    secrets = {new_secret() for _ in range(1000)}
    assert len(secrets) == 1000
    assert min(map(len, secrets)) >= 47


@pytest.mark.parametrize("text", NOT_A_SECRET, ids=lambda text: repr(text)[:20])
async def test_a_text_that_is_no_token_identifies_no_caller(hub, text):
    await make(hub, ANN)
    assert await hub.tokens.resolve(text) is None


async def test_the_id_and_the_digest_of_a_token_are_no_secret(hub):
    _, token = await make(hub, ANN)
    assert [await hub.tokens.resolve(text) for text in (token.id, token.digest)] == [None, None]


async def test_a_revoked_token_identifies_no_caller_and_leaves_no_key(hub, redis):
    before = picture(redis, own=True)
    assert await hub.tokens.none()
    secret, token = await make(hub, ANN)
    assert not await hub.tokens.none()
    await hub.tokens.revoke(token.id)
    assert await hub.tokens.resolve(secret) is None
    assert await hub.tokens.none()
    after = picture(redis, own=True)
    assert after.keys() == before.keys()
    for _ in range(2):
        with pytest.raises(NotFound, match=token.id):
            await hub.tokens.revoke(token.id)


@pytest.mark.parametrize("token_id", ["", "*", "x" * 5000, "\x00", ":", "0" * 16])
async def test_revoking_an_unknown_id_changes_nothing(hub, token_id):
    secret, _ = await make(hub, ANN)
    with pytest.raises(NotFound):
        await hub.tokens.revoke(token_id)
    assert await hub.tokens.resolve(secret) == ANN


async def test_making_a_token_twice_by_the_same_digest_changes_nothing(hub, redis):
    secret, token = await make(hub, ANN)
    before = picture(redis, own=True)
    assert await asyncio.gather(*(hub.tokens.create(ANN, token.digest) for _ in range(3))) == [token] * 3
    with pytest.raises(InvalidValue, match="sha256 belongs to another token"):
        await hub.tokens.create(BOB, token.digest)
    with pytest.raises(InvalidValue):
        await hub.tokens.create(ANN, id_of(token.digest) + "0" * 48)
    assert picture(redis, own=True) == before
    assert await hub.tokens.resolve(secret) == ANN


async def test_tokens_are_listed_newest_first_in_pages(hub):
    made = [(await make(hub, Holder(f"user-{number}", user_of("x"))))[1] for number in range(5)]
    newest = made[::-1]
    assert await hub.tokens.page(0, 10) == (5, newest)
    assert [await hub.tokens.page(offset, 2) for offset in (0, 2, 4, 6)] == [
        (5, newest[:2]), (5, newest[2:4]), (5, newest[4:]), (5, []),
    ]  # fmt: skip
    times = [token.created_us for token in made]
    assert times == sorted(times)
    assert len(set(times)) == 5


async def test_the_secret_of_a_token_is_not_stored(hub, redis):
    secret, _ = await make(hub, ANN)
    assert secret not in str(picture(redis, own=True))
    assert secret.removeprefix("hub_") not in str(picture(redis, own=True))


async def test_an_incomplete_record_of_a_token_identifies_no_caller(hub, redis):
    secret, token = await make(hub, ANN)
    redis.hdel(hub.store.keys.token(token.id), "user")
    assert await hub.tokens.resolve(secret) is None
    assert await hub.tokens.page(0, 10) == (1, [])
