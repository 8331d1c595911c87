"""A socket with an access token of an issuer ends with the token, and not because the issuer is away."""

from __future__ import annotations

import time

import pytest
from socketio.exceptions import ConnectionError as Refused

from tests.issuer import AUDIENCE, CLIENT, Issuer
from tests.sockets.people import OK
from tests.world import eventually


@pytest.fixture
def issuer():
    with Issuer() as found:
        yield found


@pytest.fixture
async def served(serve, issuer, tmp_path):
    (tmp_path / "rules.toml").write_text("[[rules]]\nwhen = { groups = 'ml' }\n")
    return await serve(
        oidc_issuer=issuer.url, oidc_client_id=CLIENT, oidc_audience=AUDIENCE, anonymous_reads=False,
        oidc_rules_file=tmp_path / "rules.toml",
    )  # fmt: skip


async def test_a_socket_is_cut_off_when_its_token_has_ended(served, listen, issuer):
    process, state = served
    ann = await listen(process, issuer.token(exp=time.time() + 600))
    bob = await listen(process, issuer.token(exp=time.time() + 6000, sub="bob"))
    assert (await ann.join("lab"), await ann.offer("0" * 32)) == (OK, OK)
    state.serving.oidc._wall_s = lambda: time.time() + 661
    await eventually(lambda: ann.hung_up_on)
    assert await bob.join("lab") == OK
    for token in (issuer.token(exp=time.time() + 600), issuer.token(groups=["sales"]), "ey.ey.ey"):
        with pytest.raises(Refused):
            await listen(process, token)


async def test_a_socket_stays_while_the_issuer_is_away(served, listen, issuer):
    process, state = served
    ann = await listen(process, issuer.token())
    issuer.stop()
    state.serving.oidc._kept.clear()
    state.serving.oidc.keys._keys.clear()
    state.serving.oidc.keys._tried = None
    await state.sockets.recheck()
    assert (ann.hung_up_on, ann.client.connected) == (0, True)
