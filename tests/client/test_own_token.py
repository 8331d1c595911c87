"""Nodes that join: an agent makes a token of its own, keeps it, and shows it from then on."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hub.client import NodeAgent, SyncNodeAgent, Unauthorized
from hub.errors import BadInput, HubError, NodeTaken
from tests.client.fake_hub import FakeHub, agent_of
from tests.world import HubProcess, eventually

LABEL = "gpu:a100"


async def a_token(hub: HubProcess, **wanted: str) -> str:
    async with hub.client() as api:
        answer = await api.post("/admin/tokens", json=wanted)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])


def agent(hub: HubProcess, node: str = "rack-7", **options: str) -> NodeAgent:
    return NodeAgent(node, pools={LABEL: 1}, url=hub.url, **options)  # type: ignore[arg-type]


async def test_an_agent_joins_and_later_uses_the_token_it_has_kept(live_hub: HubProcess, tmp_path: Path) -> None:
    token, file = await a_token(live_hub, join="fleet"), tmp_path / "deep" / "token"
    async with agent(live_hub, join_token=token, token_file=str(file)) as node:
        kept = file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [path.name for path in file.parent.iterdir()] == ["token"]
        async with live_hub.client("runner") as api:
            slot = (await api.post("/session/borrow", json={"labelKey": LABEL})).json()

        async def told() -> bool:
            return dict(node.lent) == {slot["browserId"]: slot["leaseToken"]}

        await eventually(told)
        with pytest.raises(NodeTaken, match="rack-7"):
            async with agent(live_hub, join_token=token, token_file=str(tmp_path / "another machine")):
                pass
    async with agent(live_hub, token_file=str(file)):  # the token to join with is gone from the machine
        assert file.read_text() == kept


async def test_an_agent_without_a_token_file_joins_again_after_it_left(live_hub: HubProcess) -> None:
    token = await a_token(live_hub, join="fleet")
    for _ in range(2):
        async with agent(live_hub, join_token=token):
            pass


async def test_a_token_made_by_an_operator_is_read_from_the_file(live_hub: HubProcess, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(await a_token(live_hub, node="rack-7") + "\n")
    for _ in range(2):
        async with agent(live_hub, token_file=str(file), secret="nobody's"):
            pass
    with pytest.raises(HubError, match="rack-7"):
        async with agent(live_hub, "rack-8", token_file=str(file)):
            pass


async def test_an_agent_with_the_shared_secret_does_not_join(live_hub: HubProcess, tmp_path: Path) -> None:
    file = tmp_path / "token"
    options = {"secret": live_hub.node_secret, "join_token": "nonsense", "token_file": str(file)}
    async with agent(live_hub, **options):
        assert not file.exists()


async def test_a_wrong_join_token_is_refused(live_hub: HubProcess, tmp_path: Path) -> None:
    for options in ({"join_token": "nonsense"}, {"secret": "wrong"}, {}):
        with pytest.raises(Unauthorized):
            async with agent(live_hub, **options):
                pass


@pytest.mark.parametrize("text", [",", " , ", "two words", "wörter"])
async def test_a_node_that_must_join_with_a_text_that_cannot_be_a_join_token_is_refused_before_it_joins(
    text: str, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.say("POST /node/register", *[(401, "unauthorized")] * 2)
    with pytest.raises(BadInput, match=r"^join_token holds no token; `hub token create --join NAME`"):
        async with agent_of(hub, join_token=text):
            pass
    monkeypatch.setenv("HUB_JOIN_TOKEN", text)
    with pytest.raises(BadInput, match=r"^HUB_JOIN_TOKEN holds no token; "):
        async with agent_of(hub):
            pass
    assert {seen.path for seen in hub.seen} == {"/node/register"}


async def test_a_text_that_cannot_be_a_join_token_does_not_stop_a_node_with_a_valid_secret(hub: FakeHub) -> None:
    async with agent_of(hub, secret="valid", join_token="two words"):
        assert len(hub.said("POST /node/register")) == 1


async def test_an_empty_join_token_counts_as_none(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_JOIN_TOKEN", "  ")
    hub.say("POST /node/register", (401, "unauthorized"))
    with pytest.raises(Unauthorized):
        async with agent_of(hub):
            pass
    assert hub.said("POST /node/join") == []


@pytest.mark.parametrize("file", [".", "no folder/token"])
async def test_an_unusable_token_file_is_named_in_the_error(live_hub: HubProcess, tmp_path: Path, file: str) -> None:
    (tmp_path / "no folder").write_text("")
    with pytest.raises(HubError, match="token of the node cannot be"):
        async with agent(live_hub, join_token=await a_token(live_hub, join="fleet"), token_file=str(tmp_path / file)):
            pass


async def test_the_agent_for_threads_joins_as_well(live_hub: HubProcess, tmp_path: Path) -> None:
    token = await a_token(live_hub, join="fleet")
    with SyncNodeAgent("rack-9", url=live_hub.url, join_token=token, token_file=str(tmp_path / "token")):
        assert (tmp_path / "token").exists()
