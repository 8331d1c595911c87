"""Looking holders up: in the file first, then in the store, at most once a second, and never remembering too many."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from hub.errors import StoreUnavailable
from hub.tokens import holders as holders_module
from hub.tokens.file import TokensFile
from hub.tokens.holders import Holders
from hub.tokens.models import Holder, digest_of, new_secret, user_of
from tests.world import SLACK_S, eventually

ANN = Holder("ann", user_of("ann"))


@pytest.fixture
def holders(hub) -> Holders:
    return Holders(hub.tokens, TokensFile(None))


async def make(hub, holder=ANN):
    secret = new_secret()
    return secret, await hub.tokens.create(holder, digest_of(secret))


def lookups(redis) -> int:
    return int(redis.info("commandstats").get("cmdstat_hmget", {}).get("calls", 0))


async def test_a_token_used_repeatedly_is_looked_up_once(hub, holders, redis):
    secret, _ = await make(hub)
    before, started = lookups(redis), time.monotonic()
    assert [await holders.resolve(secret) for _ in range(50)] == [ANN] * 50
    assert lookups(redis) - before <= 1 + (time.monotonic() - started)


async def test_a_token_works_as_soon_as_it_was_made(hub, holders):
    secret = new_secret()
    assert await holders.resolve(secret) is None
    await hub.tokens.create(ANN, digest_of(secret))
    assert await holders.resolve(secret) == ANN


async def test_a_token_that_is_revoked_at_another_hub_is_refused_within_a_second(hub, holders):
    secret, token = await make(hub)
    assert await holders.resolve(secret) == ANN
    await hub.tokens.revoke(token.id)

    async def refused():
        return await holders.resolve(secret) is None

    await eventually(refused, holders_module.REMEMBERED_S + SLACK_S)


async def test_a_token_that_is_revoked_here_is_refused_at_once(hub, holders):
    secret, token = await make(hub)
    assert await holders.resolve(secret) == ANN
    assert not await holders.none()
    await hub.tokens.revoke(token.id)
    holders.forget()
    assert await holders.resolve(secret) is None
    assert await holders.none()


async def test_a_remembered_token_needs_no_look_up_while_none_may_have_been_revoked(hub, holders, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(holders_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    secret, token = await make(hub)
    assert holders.remembered(secret) is None
    assert await holders.resolve(secret) == ANN
    assert (holders.remembered(secret), holders.remembered(secret + "x"), holders.remembered("")) == (ANN, None, None)
    now[0] += holders_module.REMEMBERED_S
    assert holders.remembered(secret) is None  # unknown until the next look-up
    await holders.look()
    assert holders.remembered(secret) == ANN
    await hub.tokens.revoke(token.id)
    now[0] += holders_module.REMEMBERED_S
    await holders.look()
    assert holders.remembered(secret) is None


async def test_a_token_is_looked_up_again_after_some_minutes_beside_older_hubs(hub, holders, redis, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(holders_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    secret, token = await make(hub)
    assert await holders.resolve(secret) == ANN
    redis.delete(f"hub:token:{token.id}")
    now[0] += holders_module.LOOKED_UP_S - 1
    assert await holders.resolve(secret) == ANN
    now[0] += 1
    assert await holders.resolve(secret) is None


async def test_an_emptied_store_knows_no_token(hub, holders, redis):
    secret, _ = await make(hub)
    assert await holders.resolve(secret) == ANN
    redis.flushall()

    async def unknown():
        return await holders.resolve(secret) is None

    await eventually(unknown)


async def test_the_first_token_of_another_hub_is_noticed_within_a_second(hub, holders):
    assert await holders.none()
    await make(hub)

    async def noticed():
        return not await holders.none()

    await eventually(noticed, holders_module.REMEMBERED_S + SLACK_S)


async def test_the_number_of_remembered_tokens_is_bounded(hub, holders, redis, monkeypatch):
    monkeypatch.setattr(holders_module, "REMEMBERED_MAX", 3)
    monkeypatch.setattr(holders_module, "REMEMBERED_S", 60)
    secrets = [(await make(hub))[0] for _ in range(5)]
    assert [await holders.resolve(secret) for secret in secrets * 2] == [ANN] * 10
    before = lookups(redis)
    assert [await holders.resolve(secret) for secret in secrets[2:]] == [ANN] * 3
    assert lookups(redis) == before
    assert [await holders.resolve(secret) for secret in secrets[:2]] == [ANN] * 2
    assert lookups(redis) == before + 2


async def test_a_token_of_the_file_needs_no_store_and_wins_over_one_of_the_store(hub, tmp_path):
    secret, _ = await make(hub)
    path = tmp_path / "tokens.toml"
    path.write_text(f'[[tokens]]\ntoken = "{secret}"\nuser = "bob"\n')
    both = Holders(hub.tokens, TokensFile(path))
    hub.store.set_away()
    assert await both.resolve(secret) == Holder("bob", user_of("bob"))
    assert not await both.none()
    with pytest.raises(StoreUnavailable):
        await both.resolve(new_secret())


async def test_while_the_store_is_away_a_look_up_raises_and_the_hub_is_not_open(hub, holders):
    secret, _ = await make(hub)
    hub.store.set_away()
    for call in (holders.resolve(secret), holders.resolve("x"), holders.none()):
        with pytest.raises(StoreUnavailable):
            await call
    hub.store.away = False
    assert await holders.resolve(secret) == ANN


async def test_many_concurrent_look_ups_are_all_answered(hub, holders):
    secrets = [(await make(hub, Holder(f"u{number}", user_of(f"u{number}"))))[0] for number in range(50)]
    shown = [secrets[number % 50] if number % 3 else new_secret() for number in range(500)]
    found = await asyncio.gather(*(holders.resolve(secret) for secret in shown))
    assert [holder and holder.name for holder in found] == [f"u{n % 50}" if n % 3 else None for n in range(500)]


@pytest.mark.parametrize("of", ["of_digest", "none"])
async def test_a_look_up_during_a_revocation_is_not_remembered(hub, holders, monkeypatch, of):
    secret, token = await make(hub)
    look, looked_up, revoked = getattr(hub.tokens, of), asyncio.Event(), asyncio.Event()

    async def slowly(*secret):
        found = await look(*secret)
        looked_up.set()
        await revoked.wait()
        return found

    monkeypatch.setattr(hub.tokens, of, slowly)
    asked = asyncio.create_task(holders.none() if of == "none" else holders.resolve(secret))
    await looked_up.wait()
    await hub.tokens.revoke(token.id)
    holders.forget()
    revoked.set()
    await asked
    assert await holders.resolve(secret) is None
    assert await holders.none()
