"""The hub uses parts of libraries that these do not promise to keep: a list by name, with what breaks without each.

After a new release of a library these tests say what to look at: a name that is gone fails with what it is for.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from redis.asyncio.connection import AbstractConnection
from socketio.async_pubsub_manager import AsyncPubSubManager
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.supervisors import Multiprocess

from hub.api.serving.private import Cycle

HUB = Path(__file__).parents[1] / "hub"
LIBRARIES = ("uvicorn", "socketio", "redis", "prometheus_client")
HTTP = {
    "_should_upgrade": "an `Upgrade` outside of the sockets' path is answered as plain HTTP",
    "_start_asgi_task": "heartbeats are answered without a task; streams of events can be cut",
    "client": "connections of one address are counted and bounded",
    "connection_lost": "timers end and the connection is no longer counted",
    "connection_made": "slow clients have a time, and answers are written in one piece",
    "cycle": "bodies are read into it; a connection whose body is missing is not waited for without end",
    "data_received": "heads and chunks are bounded, and a heartbeat is taken when all of it is there",
    "eof_received": "a client that has said its last word is let go",
    "expect_100_continue": "a body that is announced is asked for",
    "flow": "a client that sends faster than is read is held back, and is not blamed for it",
    "handle_websocket_upgrade": "Socket.IO gets a WebSocket",
    "headers": "hosts, origins and certificates are looked at before anything else",
    "loop": "times of a connection, on the clock of its loop",
    "on_body": "bodies are passed on",
    "on_header": "headers that make a request unusual are noted while it is read",
    "on_headers_complete": "long heads are refused",
    "on_message_begin": "the head has its time",
    "on_message_complete": "an idle connection has the time of keep-alive",
    "on_response_complete": "the next request of a connection begins, in its order",
    "parser": "an offer to speak another protocol is left out, and the request read as HTTP",
    "pipeline": "requests that wait for the answers before them are counted and bounded",
    "send_400_response": "what is no HTTP is answered with a problem document",
    "server_state": "requests are counted",
    "timeout_keep_alive": "an idle connection is closed in time",
    "transport": "answers are written in one piece, and connections closed or cut",
    "url": "the sockets' path is known before the request is routed",
}
SOCKETS = {
    "close_sent": "after a refused handshake there is nothing to close but the connection",
    "close_timeout": "a client that does not answer a goodbye is let go",
    "conn": "the log says no session ids; pings are bounded",
    "connection_lost": "the connection is no longer counted",
    "data_received": "a client that says much at once is read a piece at a time",
    "disconnected": "a connection is cut once",
    "handle_connect": "a connection that is not read can be cut",
    "handle_ping": "a client that does not read gets one answer to its pings",
    "handshake_complete": "a refused handshake is not touched any more",
    "handshake_initiated": "a head that is not read is refused, which the server does not do",
    "logger": "the log says no session ids",
    "queue": "nothing is read while what was read before waits",
    "read_paused": "the same",
    "receive": "sockets take turns",
    "scope": "whoever serves the socket can cut it",
    "transport": "reading is paused, and connections cut",
    "writable": "a client that does not read gets one answer to its pings",
}
SUPERVISOR = {
    "handle_hup": "SIGHUP reaches the processes, and does not replace them",
    "processes": "the same",
}
CYCLE = {
    "scope": "headers of a heartbeat",
    "transport": "the answer to a heartbeat, and the cut of an answer that cannot be finished",
    "body": "a heartbeat is read from it",
    "keep_alive": "a connection that is to be closed is answered the ordinary way",
    "more_body": "a heartbeat is taken when all of it is there",
    "disconnected": "nothing is changed for a caller who has hung up",
    "response_started": "an answer to a heartbeat ends its request",
    "response_complete": "the same",
    "message_event": "whoever waits for a body is told of it",
    "on_response": "the next request of a connection begins",
}
MANAGER = {
    "_handle_emit": "events of other realms reach the connections of this hub",
    "_listen": "events reach this hub",
    "_publish": "a connection at another hub can be ended",
    "basic_disconnect": "the end of a connection costs no look at the rooms of all others",
    "basic_enter_room": "the rooms of a connection are known at its end",
    "basic_leave_room": "the same",
    "callbacks": "nothing is kept of a connection that has ended",
    "channel": "events are read and published where the scripts publish them",
    "disconnect": "connections are ended one after the other",
    "pending_connect": "nothing is kept of a connection that has ended",
    "pending_disconnect": "the same",
    "rooms": "events for rooms without a connection here are not read",
    "thread": "the hub stops listening when it ends",
}
CONNECTION = {
    "_parser": "an answer of Redis is read with one coroutine",
    "disconnect": "a connection that fails is closed at once",
    "pack_command": "commands are packed by hiredis",
    "read_response": "a connection that another task closes meanwhile counts as cut",
    "send_packed_command": "the same",
}
HISTOGRAM = {
    "_buckets": "durations that were counted elsewhere are added many at once",
    "_sum": "the same",
}
TWIN = {
    "_documentation": "a metric is counted apart in each realm that has a name",
    "_kwargs": "the same, for histograms",
    "_labelnames": "the same",
    "_multiprocess_mode": "the same, for gauges",
    "_name": "the same",
}
SUBCLASSES = {
    "HubProtocol": ("api/serving/protocol.py", HttpToolsProtocol, HTTP),
    "UpgradingProtocol": ("api/serving/upgrades.py", HttpToolsProtocol, HTTP),
    "SocketProtocol": ("api/serving/upgrades.py", WebSocketsSansIOProtocol, SOCKETS),
    "_Supervisor": ("api/server.py", Multiprocess, SUPERVISOR),
    "Events": ("api/sockets/events.py", AsyncPubSubManager, MANAGER),
    "Packed": ("store/packing.py", AbstractConnection, CONNECTION),
    "Durations": ("observability/metrics.py", Histogram, HISTOGRAM),
}


def has(cls: type) -> set[str]:
    """The names that a class, or one that it comes from, defines or gives its objects."""
    names = set(dir(cls)) - set(dir(object))
    for each in cls.__mro__[:-1]:
        if each.__module__.startswith(LIBRARIES):
            names |= set(re.findall(r"\bself\.(\w+)", inspect.getsource(each)))
    return names


def uses(file: str, name: str) -> set[str]:
    """Return the names that a class of ours defines, or uses of itself or of what it comes from."""
    tree = ast.parse((HUB / file).read_text())
    (found,) = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    inside = [node for node in ast.walk(found) if isinstance(node, ast.Attribute)]
    of_itself = {node.attr for node in inside if isinstance(node.value, ast.Name) and node.value.id == "self"}
    of_super = {
        node.attr
        for node in inside
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super"
    }
    defined = {node.name for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return of_itself | of_super | defined


@pytest.mark.parametrize("ours", SUBCLASSES)
def test_every_used_private_name_of_a_library_is_listed_with_its_purpose(ours: str):
    file, theirs, table = SUBCLASSES[ours]
    assert (uses(file, ours) & has(theirs)) - set(table) == set()


@pytest.mark.parametrize(
    ("theirs", "table"),
    [(theirs, table) for _, theirs, table in SUBCLASSES.values()] + [(RequestResponseCycle, CYCLE)],
)
def test_the_libraries_still_have_every_listed_private_name(theirs: type, table: dict[str, str]):
    gone = {name: f"this breaks: {what}" for name, what in table.items() if name not in has(theirs)}
    assert gone == {}


def test_every_listed_private_name_is_used():
    used = {theirs: set[str]() for _, theirs, _ in SUBCLASSES.values()}
    for ours, (file, theirs, _) in SUBCLASSES.items():
        used[theirs] |= uses(file, ours)
    assert {name for _, theirs, table in SUBCLASSES.values() for name in set(table) - used[theirs]} == set()
    assert set(CYCLE) == {name for name in (*Cycle.__annotations__, *vars(Cycle)) if not name.startswith("_")}


def test_the_private_attributes_of_a_metric_hold_its_name_labels_and_buckets():
    options = {"registry": CollectorRegistry(), "labelnames": ["label"]}
    gauge = Gauge("hub_nodes", "Nodes.", multiprocess_mode="max", **options)
    histogram = Histogram("hub_seconds", "Seconds.", buckets=(0.5, 2.0), **options)
    counter = Counter("hub_borrows", "Borrows.", **options)
    for metric, name, text in ((gauge, "hub_nodes", "Nodes."), (counter, "hub_borrows", "Borrows.")):
        told = (metric._name, metric._documentation, metric._labelnames)
        assert told == (name, text, ("label",)), "metrics of a realm that has a name are made from these"
    assert gauge._multiprocess_mode == "max", "a gauge of a realm that has a name is shown as that of the default realm"
    assert histogram._kwargs["buckets"] == (0.5, 2.0), "a histogram of a realm that has a name has these buckets"


def private_names() -> dict[str, set[str]]:
    """Return, per file, the private names that it reads of an object whose class is not written in the hub."""
    trees = {path.relative_to(HUB).as_posix(): ast.parse(path.read_text()) for path in HUB.rglob("*.py")}
    ours = {"_replace", "_asdict", "_exit"}  # of named tuples and of `os`, which promise them
    for node in [node for tree in trees.values() for node in ast.walk(tree)]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            ours.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            ours.add(node.attr)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            ours |= {target.id for target in targets if isinstance(target, ast.Name)}
    found: dict[str, set[str]] = {}
    for file, tree in trees.items():
        read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names = {name for name in read - ours if name.startswith("_") and not name.startswith("__")}
        if names:
            found[file] = names
    return found


def test_no_unlisted_private_name_of_a_library_is_used():
    known = {name for _, _, table in SUBCLASSES.values() for name in table} | set(TWIN)
    assert {file: names - known for file, names in private_names().items() if names - known} == {}
    assert private_names()["observability/realms.py"] | {"_name"} == set(TWIN)  # a class of the hub has a `_name`, too


def test_only_one_file_imports_private_modules_of_uvicorn():
    private = re.compile(r"^\s*(?:from|import) uvicorn\.", re.MULTILINE)
    assert [path.name for path in HUB.rglob("*.py") if private.search(path.read_text())] == ["private.py"]


def test_no_private_name_is_imported_from_a_library():
    private = re.compile(r"^\s*from (?!hub\b)(?!__future__)\S+ import .*\b_(?!_)\w+", re.MULTILINE)
    undocumented = re.compile(r"\bscanstring\b|\bscan_once\b")
    read = {path.relative_to(HUB).as_posix(): path.read_text() for path in HUB.rglob("*.py")}
    found = {file for file, text in read.items() if private.search(text) or undocumented.search(text)}
    assert found == {"cli/libraries.py"}  # the fence around typer, which has a test of its own
