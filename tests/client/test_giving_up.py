"""Where the SDK stops saying something: each place goes on in the background, tries again, or has its reason here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hub.client

HOME = Path(hub.client.__file__).parent
CATCHES = {"HubError", "Unavailable", "HubUnavailable", "StoreUnavailable", "BaseException", "Exception"}
GOES_ON = {"add", "owe", "_owe"}  # calls that hand a message to the backlog
REASONS = {
    "__main__.main": "the program ends, and says so",
    "announcing.Announcing._recycle": "the slot stays to be published or to be made fresh, and the next beat tries",
    "backlog.Backlog._deliver": "the messages are dropped, and logged",
    "backlog._attempt": "is the attempt of the backlog",
    "calls.leave": "`hand_back` has handed it to the backlog",
    "jobs.beating.Heartbeat._beat": "the next beat follows",
    "jobs.handlers.Handler.run": "what the handler raised is reported",
    "jobs.listening.Listener._unfit": "`put` has handed it to the backlog",
    "jobs.processes._outcome": "what the handler raised is reported",
    "jobs.providers.ServedProviders.answer": "no answer says that a read has failed",
    "jobs.reporter.ClaimReporter.close": "the calls that are left go with the leave",
    "jobs.listening.WorkerServing._serve": "the worker ends, and says so",
    "jobs.listening.WorkerServing._run": "what the handler raised is reported",
    "jobs.listening.WorkerServing._report": "`put` has handed it to the backlog",
    "jobs.sockets.Socket.emit": "said again when the socket connects again",
    "jobs.sockets.Socket.close": "the hub notices that the socket is gone",
    "jobs.sync_worker.SyncWorker._live": "raised in the thread of the program",
    "jobs.progress.ProgressReporter._send": "said with the next progress",
    "jobs.handlers._model": "does not speak to the hub",
    "transport._Transport._request": "counts as a hub that is away",
    "node_thread.NodeThread._run": "raised in the thread of the program",
    "pod_annotations.PodAnnotations._write": "written again for ever",
    "sync_borrower.SyncBorrowing._keep": "the slot is lost, and says so",
    "node_calls.NodeCalls.compare": "the next beat compares again",
    "slot.Slot._tell": "does not speak to the hub",
    "using._call": "does not speak to the hub",
    "watch._answered": "asked again for ever",
}


def handlers(tree: ast.AST, name: str, repeated: bool = False) -> Iterator[tuple[str, ast.ExceptHandler]]:
    """Return each `except` that stands in no loop of its function, with the name of that."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from handlers(node, f"{name}.{node.name}")
            continue
        if isinstance(node, ast.ExceptHandler) and not repeated:
            yield name, node
        yield from handlers(node, name, repeated or isinstance(node, ast.While | ast.For))


def gives_up(handler: ast.ExceptHandler) -> bool:
    """Whether a refusal that may pass ends here."""
    kinds = ast.walk(handler.type) if handler.type else ()
    if handler.type and not CATCHES & {node.id for node in kinds if isinstance(node, ast.Name)}:
        return False
    called = [node.func for node in ast.walk(handler) if isinstance(node, ast.Call)]
    names = {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in called}
    return not names & GOES_ON and not isinstance(handler.body[-1], ast.Raise)


def test_every_handler_of_the_sdk_that_gives_up_is_listed_with_its_reason() -> None:
    found = {
        name
        for file in sorted(HOME.rglob("*.py"))
        for name, handler in handlers(
            ast.parse(file.read_text()), ".".join(file.relative_to(HOME).with_suffix("").parts)
        )
        if gives_up(handler)
    }
    assert found == set(REASONS)
