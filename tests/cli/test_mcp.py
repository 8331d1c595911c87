"""`hub mcp`: an agent borrows by the Model Context Protocol, asked by the client of its SDK in a process of its own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent

import hub
from tests.cli.command import Command, register
from tests.world import PATIENCE_S, eventually, wait_until

PAGE = (Path(hub.__file__).parent / "manual/models.md").read_text()
TOOLS = {"list_pools", "borrow_slot", "slot_status", "return_slot", "why"}


class Agent:
    """A session with `hub mcp`, and the notifications that it has heard."""

    def __init__(self, session: ClientSession, heard: list[Any]) -> None:
        self.session, self.heard = session, heard

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what a tool answers; fails when that is an error."""
        result = await self.session.call_tool(tool, arguments)
        assert not result.is_error, text(result)
        assert result.structured_content == json.loads(text(result))
        return result.structured_content

    async def refusal(self, tool: str, **arguments: Any) -> str:
        """Return the words with which a tool refuses."""
        result = await self.session.call_tool(tool, arguments)
        assert result.is_error, text(result)
        return text(result)


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def served(command: Command, *words: str, **environment: str) -> StdioServerParameters:
    environment = {**command.environment, **environment}
    return StdioServerParameters(command=sys.executable, args=["-m", "hub.cli", "mcp", *words], env=environment)


@asynccontextmanager
async def agent_of(command: Command, *words: str, **environment: str) -> AsyncIterator[Agent]:
    """Start `hub mcp` and open a session with it; its stdin ends with the block."""
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    with (command.home / "agent.err").open("w") as err:
        async with (
            stdio_client(served(command, *words, **environment), err) as (read, write),
            ClientSession(read, write, message_handler=hear) as session,
        ):
            await session.initialize()
            yield Agent(session, heard)


def leases(command: Command) -> dict[str, Any]:
    return {each["browserId"]: each for each in command.ask("/sessions?limit=1000")["sessions"]}


@pytest.fixture
def pool(announce: Callable[..., None]) -> str:
    """A pool with two slots."""
    slots = [
        {"labelKey": "phone:pixel9", "slotId": f"p{number}", "webSocketEndpoint": "x:1", "os": "15"}
        for number in (1, 2)
    ]
    announce("rack-7", slots=slots)
    return "phone:pixel9"


async def test_an_agent_lists_borrows_looks_and_returns(command, pool):
    async with agent_of(command) as agent:
        tools = {each.name: each for each in (await agent.session.list_tools()).tools}
        assert tools.keys() == TOOLS
        (shown,) = [each for each in (await agent("list_pools", search="phone"))["pools"] if each["label"] == pool]
        assert shown == {"label": pool, "free": 2, "lent": 0, "held_back": 0, "total": 2}
        lent = await agent("borrow_slot", label="phone:pixel9", purpose="screenshots")
        assert (lent["label"], lent["pool"], lent["address"]) == ("phone:pixel9", pool, "x:1")
        assert (lent["attributes"], 0 < lent["seconds_left"] <= 60) == ({"os": "15"}, True)
        lease = leases(command)[lent["slot_id"]]
        assert (lease["runId"][:4], lease["ttlSeconds"]) == ("mcp-", 60)
        (held,) = (await agent("slot_status"))["slots"]
        assert held == {**lent, "seconds_left": held["seconds_left"]}
        assert (await agent("slot_status", slot_id=lent["slot_id"]))["slots"][0]["token"] == lent["token"]
        (told,) = (await agent("why", id=lent["slot_id"]))["explanations"]
        assert (told["kind"], told["state"]) == ("slot", "lent")
        (told,) = (await agent("why", id=pool))["explanations"]
        assert (told["kind"], told["lent"], told["leases"][0]["slotId"]) == ("pool", 1, lent["slot_id"])
        assert await agent("return_slot", slot_id=lent["slot_id"]) == {"returned": lent["slot_id"]}
        assert leases(command) == {}
        assert (await agent("slot_status"))["slots"] == []


async def test_every_tool_and_argument_is_described_for_a_model(command):
    async with agent_of(command) as agent:
        assert "return_slot" in (agent.session.instructions or "")
        for tool in (await agent.session.list_tools()).tools:
            assert len(tool.description or "") > 90, tool.name
            for name, said in tool.input_schema["properties"].items():
                assert said["description"], (tool.name, name)
        (page,) = (await agent.session.read_resource("hub://manual")).contents
        assert page.text == PAGE


async def test_an_unknown_label_is_refused_with_the_nearest(command, pool):
    async with agent_of(command) as agent:
        said = await agent.refusal("borrow_slot", label="phone:pixel8", wait_seconds=30)
        # The hub compares with the labels that it read some seconds ago, the tool with those of now.
        assert f"did you mean {pool}?" in said or f"the nearest is {pool}." in said
        assert "list_pools" in said
        assert f"the nearest is {pool}" in await agent.refusal("borrow_slot", label="telephone:g1")
        assert "label" in await agent.refusal("borrow_slot", label="no label!")
        assert "nothing" in (await agent.refusal("why", id="nowhere")).lower()
        assert "You do not hold" in await agent.refusal("return_slot", slot_id="p9")


async def test_an_agent_never_holds_more_than_it_may(command, pool, announce):
    announce("rack-8", slots=[{"labelKey": pool, "slotId": f"q{number}"} for number in range(3)])
    for most in (1, 2):
        async with (
            agent_of(command, *([] if most == 2 else ["--max-slots", "1"])) as agent,
            anyio.create_task_group() as group,
        ):
            said: list[CallToolResult] = []

            async def borrow(agent=agent, said=said) -> None:
                said.append(await agent.session.call_tool("borrow_slot", {"label": pool}))

            for _ in range(4):
                group.start_soon(borrow)
            await eventually(lambda said=said: len(said) == 4)
            refused = [text(each) for each in said if each.is_error]
            assert len(refused) == 4 - most
            assert all(f"You may hold {most} at a time" in each for each in refused)
            assert len(leases(command)) == most
        await eventually(lambda: not leases(command))


async def test_a_borrow_waits_and_its_refusal_says_what_to_do(command, pool):
    async with agent_of(command) as first, agent_of(command) as second:
        held = [(await first("borrow_slot", label=pool))["slot_id"] for _ in range(2)]
        said = await second.refusal("borrow_slot", label=pool, wait_seconds=0.5)
        assert "again" in said
        async with anyio.create_task_group() as group:
            got: list[dict[str, Any]] = []

            async def borrow() -> None:
                got.append(await second("borrow_slot", label=pool, wait_seconds=60))

            group.start_soon(borrow)
            await eventually(lambda: command.ask("/queue")["total"] == 1)
            await first("return_slot", slot_id=held[0])
        assert got[0]["slot_id"] == held[0]


async def test_a_cancelled_call_gives_its_borrow_up(command, pool):
    async with agent_of(command) as first, agent_of(command) as second:
        for _ in range(2):
            await first("borrow_slot", label=pool)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: second("borrow_slot", label=pool, wait_seconds=60))
            await eventually(lambda: command.ask("/queue")["total"] == 1)
            group.cancel_scope.cancel()
        await eventually(lambda: command.ask("/queue")["total"] == 0)
        assert (await second("slot_status"))["slots"] == []


async def test_leases_are_renewed_in_the_background(start_hub, tmp_path):
    lender = start_hub(HUB_NODE_TIMEOUT="600")
    register(lender, "rack-7", slots=[{"labelKey": "phone:pixel9", "slotId": "p1"}])
    command = Command(lender, tmp_path)
    async with agent_of(command, "--ttl", "2") as agent:
        lent = await agent("borrow_slot", label="phone:pixel9")
        first = leases(command)["p1"]["secondsLeft"]
        await eventually(lambda: leases(command)["p1"]["secondsLeft"] < first - 0.2)
        before = leases(command)["p1"]["secondsLeft"]
        await eventually(lambda: leases(command)["p1"]["secondsLeft"] > before)
        assert (await agent("slot_status"))["slots"][0]["token"] == lent["token"]


async def test_a_lost_lease_is_a_notification_and_the_error_of_the_next_call(command, pool):
    async with agent_of(command) as agent:
        lent = await agent("borrow_slot", label=pool)
        await _end(command, lent)
        await eventually(lambda: [each for each in agent.heard if "fan is broken" in str(each)])
        (said,) = [each for each in agent.heard if "fan is broken" in str(each)]
        assert (said.method, said.params.level, lent["slot_id"] in said.params.data) == (
            "notifications/message",
            "error",
            True,
        )
        refused = await agent.refusal("list_pools")
        assert lent["slot_id"] in refused
        assert "Stop using it now" in refused
        assert (await agent("list_pools"))["total"] >= 1
        assert (await agent("slot_status"))["slots"] == []
        assert await agent("borrow_slot", label=pool)


async def test_a_client_of_the_protocol_of_2026_hears_of_a_lost_lease_by_its_subscription(command, pool):
    async with (
        Client(stdio_client(served(command))) as client,
        client.listen(resource_subscriptions=["hub://slots"]) as events,
    ):
        result = await client.call_tool("borrow_slot", {"label": pool})
        assert not result.is_error, text(result)
        (slots,) = (await client.read_resource("hub://slots")).contents
        assert [each["slot_id"] for each in json.loads(slots.text)] == [result.structured_content["slot_id"]]
        await _end(command, result.structured_content)
        with anyio.fail_after(PATIENCE_S):
            assert "hub://slots" in str(await anext(aiter(events)))
        assert "Stop using it now" in text(await client.call_tool("slot_status", {}))


async def _end(command: Command, lent: dict[str, Any]) -> None:
    words = ["--force", "--reason", "fan is broken", "--label", lent["pool"]]
    done = await anyio.to_thread.run_sync(lambda: command("return", lent["slot_id"], *words))
    assert done.returncode == 0, done.stderr


class Raw:
    """`hub mcp` as a process to which lines are written."""

    def __init__(self, command: Command, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hub.cli", "mcp", *words], env=command.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._number = 0

    def write(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer to a request; every line on stdout has to be a message."""
        assert self.process.stdout
        self._number += 1
        self.write(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}).encode())
        while True:
            said = json.loads(self.process.stdout.readline())
            assert said["jsonrpc"] == "2.0"
            if said.get("id") == self._number:
                return said

    def begin(self) -> None:
        client = {"name": "raw", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def borrow(self, label: str) -> dict[str, Any]:
        result = self.ask("tools/call", name="borrow_slot", arguments={"label": label})["result"]
        assert not result["isError"], result
        return result["structuredContent"]

    def end(self) -> tuple[int, str]:
        """Return the exit code and stderr, once it has ended."""
        assert self.process.stderr
        code = self.process.wait(PATIENCE_S)
        return code, self.process.stderr.read().decode()


@pytest.fixture
def raw(command):
    started: list[Raw] = []

    def start(*words: str, of: Command = command, begin: bool = True) -> Raw:
        started.append(agent := Raw(of, *words))
        if begin:
            agent.begin()
        return agent

    yield start
    for each in started:
        each.process.kill()
        with contextlib.suppress(BrokenPipeError), each.process:  # waits, and closes the streams
            pass


@pytest.mark.parametrize("how", ["stdin", "SIGTERM", "SIGINT"])
def test_the_end_returns_everything(command, pool, raw, how):
    agent = raw()
    for _ in range(2):
        agent.borrow(pool)
    assert len(leases(command)) == 2
    if how == "stdin":
        agent.process.stdin.close()
    else:
        agent.process.send_signal(signal.Signals[how])
    assert agent.end() == (0, "")
    assert leases(command) == {}


def test_the_end_of_an_agent_that_waits_gives_its_place_up(command, pool, raw):
    first, second = raw(), raw()
    for _ in range(2):
        first.borrow(pool)
    call = {"name": "borrow_slot", "arguments": {"label": pool, "wait_seconds": 60}}
    second.write(json.dumps({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": call}).encode())
    wait_until(lambda: command.ask("/queue")["total"] == 1)
    second.process.stdin.close()
    assert second.end() == (0, "")
    assert command.ask("/queue")["total"] == 0


def test_after_a_kill_the_lease_lapses_within_its_length(start_hub, tmp_path, raw):
    lender = start_hub(HUB_NODE_TIMEOUT="600")
    register(lender, "rack-7", slots=[{"labelKey": "phone:pixel9", "slotId": "p1"}])
    command = Command(lender, tmp_path)
    agent = raw("--ttl", "2", of=command)
    agent.borrow("phone:pixel9")
    agent.process.kill()
    assert leases(command)["p1"]["secondsLeft"] < 3
    wait_until(lambda: not leases(command))


def test_a_client_that_reads_nothing_gets_its_slots_returned_all_the_same(command, pool, raw):
    agent = raw()
    agent.borrow(pool)
    listing = json.dumps({"jsonrpc": "2.0", "id": "x", "method": "tools/list"}).encode()
    for _ in range(60):
        agent.write(listing)
    agent.process.stdin.close()
    wait_until(lambda: not leases(command))


def test_nonsense_on_stdin_is_ignored(command, pool, raw):
    agent = raw(begin=False)
    nonsense = [
        b"", b"\xff\xfe\x00", b"{", b"[]", b"null", b"42", b'"text"', b"{}", b'{"jsonrpc": "2.0"}', b"[" * 100_000,
        b'{"jsonrpc": "2.0", "id": 1}', b'{"jsonrpc": "2.0", "id": null, "method": 5}', b"x" * 1_000_000,
        b'{"jsonrpc": "2.0", "method": "notifications/nothing"}', b'{"jsonrpc": "2.0", "id": 77, "result": {}}',
    ]  # fmt: skip
    for line in nonsense:
        agent.write(line)
    agent.begin()
    for line in nonsense:
        agent.write(line)
    lent = agent.borrow(pool)
    strange = agent.ask("tools/call", name="borrow_slot", arguments={"label": 5, "wait_seconds": "soon"})
    assert strange["result"]["isError"]
    assert "error" in agent.ask("nothing/here")
    assert agent.ask("tools/call", name="nothing", arguments={})
    assert (
        agent.ask("tools/call", name="return_slot", arguments={"slot_id": lent["slot_id"]})["result"]["isError"]
        is False
    )
    agent.process.stdin.close()
    code, err = agent.end()
    assert (code, "Traceback" in err) == (0, False), err


def test_a_hub_that_is_away_is_the_error_of_a_call_and_not_the_end(tmp_path, raw):
    command = Command(None, tmp_path)
    command.environment |= {"HUB_URL": "http://127.0.0.1:9"}
    agent = raw(of=command)
    said = agent.ask("tools/call", name="borrow_slot", arguments={"label": "phone", "wait_seconds": 0})["result"]
    assert (said["isError"], "127.0.0.1:9" in str(said)) == (True, True)
    agent.process.stdin.close()
    code, err = agent.end()
    assert (code, "Traceback" in err) == (0, False), err


def test_without_the_extra_the_command_says_how_to_install_it(command):
    before = "import hub.cli.mcp as mcp; mcp.find_spec = lambda name: None"
    running = command.start("mcp", before=before)
    assert running.end() == 1
    assert running.out == ""
    assert running.err.strip().splitlines() == [running.err.strip()]
    assert "pip install 'capacity-hub[mcp]'" in running.err


def test_the_page_for_models_is_printed_whole(command):
    done = command("manual", "--for-models")
    assert done.stdout == PAGE
    assert all(tool in done.stdout for tool in TOOLS)
    assert command("manual", "queue", "--for-models").returncode == 2
