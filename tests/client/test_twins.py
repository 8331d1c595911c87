"""The SDK offers the same to asyncio and to threads, under the same names; every option is in a signature."""

from __future__ import annotations

import inspect
import io
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hub.client
import hub.client.jobs
from hub.client import borrower, sync_borrower
from hub.client.waiting import BorrowOptions, BundleOptions
from tests import twins

PACKAGES: tuple[ModuleType, ...] = (hub.client, hub.client.jobs)
OVERRIDDEN = {hub.client.jobs.Extension.run}  # programs write it, with what they registered beside their class
# Public classes for asyncio and threads alike: options, and what calls return or are given.
FOR_BOTH = {
    "AgentOptions", "Category", "ClaimedTask", "Extension", "InternalJob", "Provider", "ScheduleOptions", "Slot",
    "SubmitOptions", "Task", "TaskInfo",
}  # fmt: skip
# The interface of the published client, whose extensions are plain functions; `Worker` serves jobs with asyncio.
PUBLISHED = {"JobManager"}
# What threads do themselves where an event loop does it: begin, say that they get on, hear what ended or was lost.
OF_THREADS = {
    "SyncNodeAgent": {"start", "progress", "failure", "begin_anew"},
    "SyncWorker": {"counts", "begin_anew"},  # a plain attribute of `Worker`
    "SyncHubClient.borrow": {"on_lost"},
    "SyncHubClient.borrow_all": {"on_lost"},
    "SyncHubClient.keep": {"stop"},
}
TYPES = {"AsyncBaseTransport": "BaseTransport", "Borrowing": "SyncBorrowing", "Bundle": "SyncBundle"}


def public() -> Iterator[tuple[str, type]]:
    for package in PACKAGES:
        for name in package.__all__:
            found = getattr(package, name)
            if (
                inspect.isclass(found)
                and not issubclass(found, Exception)
                and found.__module__.startswith("hub.client")
            ):
                yield name, found


CLASSES = dict(public())
TWINS = {name.removeprefix("Sync"): name for name in CLASSES if name.startswith("Sync")}
PAIRS = [(CLASSES[name], CLASSES[twin]) for name, twin in TWINS.items()]
assert PAIRS[0][0] is hub.client.Bundle  # lent by a block, and no block itself
PAIRS.append((borrower.Borrowing, sync_borrower.SyncBorrowing))


def members(kind: type) -> dict[str, Any]:
    """Its methods and properties, and how it is made."""
    found = {name: each for name, each in inspect.getmembers_static(kind) if not name.startswith("_")}
    return found | {"__init__": inspect.getattr_static(kind, "__init__")}


def said(annotation: Any) -> str:
    """An annotation as the twin has it."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for ours, theirs in TYPES.items():
        text = re.sub(rf"\b{ours}\b", theirs, text)
    return text


def calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, kind in CLASSES.items():
        for member, each in members(kind).items():
            if inspect.isfunction(each) and each.__module__.startswith("hub.client") and each not in OVERRIDDEN:
                yield f"{name}.{member}", each


def is_async(kind: type) -> bool:
    waits = (inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in members(kind).values())
    return "__aenter__" in vars(kind) or any(waits)


def test_every_public_async_class_has_a_class_for_threads_or_needs_none():
    assert {name for name, kind in CLASSES.items() if is_async(kind)} == TWINS.keys()
    assert TWINS.keys() == {"Bundle", "HubClient", "NodeAgent", "JobsClient", "Worker"}
    assert CLASSES.keys() == {*TWINS, *TWINS.values(), *FOR_BOTH, *PUBLISHED}


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: kind.__name__)
def test_a_class_for_threads_has_every_method_and_parameter_of_its_async_class(ours: type, theirs: type):
    theirs_has = members(theirs)
    for name, each in members(ours).items():
        assert name in theirs_has, f"{theirs.__name__} has no {name}"
        if not inspect.isfunction(each):
            assert type(theirs_has[name]) is type(each), name
            continue
        known, twin = inspect.signature(each), inspect.signature(theirs_has[name])
        if name == "__init__" and (ours, theirs) == PAIRS[-1]:  # made by `borrow` alone
            continue
        shared = [parameter for parameter in twin.parameters if parameter in known.parameters]
        assert shared == list(known.parameters), f"{theirs.__name__}.{name} takes {shared}"
        assert twin.parameters.keys() - known.parameters.keys() == OF_THREADS.get(f"{theirs.__name__}.{name}", set())
        for parameter in known.parameters.values():
            other = twin.parameters[parameter.name]
            assert (other.kind, other.default) == (parameter.kind, parameter.default), f"{name}({parameter.name})"
            assert set(said(parameter.annotation).split(" | ")) <= set(said(other.annotation).split(" | ")), name
        assert twin.return_annotation == said(known.return_annotation), name


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: kind.__name__)
def test_a_class_for_threads_has_further_members_only_where_threads_need_them(ours: type, theirs: type):
    assert members(theirs).keys() - members(ours).keys() == OF_THREADS.get(theirs.__name__, set())


@pytest.mark.parametrize(("ours", "theirs"), PAIRS[1:], ids=lambda kind: kind.__name__)
def test_context_managers_can_be_entered_and_left_in_both_forms(ours: type, theirs: type):
    assert {"__aenter__", "__aexit__"} <= vars(ours).keys()
    assert {"__enter__", "__exit__"} <= vars(theirs).keys()


@pytest.mark.parametrize(("name", "call"), list(calls()), ids=lambda each: each if isinstance(each, str) else "")
def test_every_option_is_in_the_signature(name: str, call: Callable[..., Any]):
    kinds = {parameter.kind for parameter in inspect.signature(call).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds, name


def test_the_default_of_an_option_is_in_the_signature():
    clients = (hub.client.HubClient, hub.client.SyncHubClient)
    for call in [call for client in clients for call in (client.borrow, client.acquire)]:
        options = inspect.signature(call).parameters
        assert {name: options[name].default for name in BorrowOptions.__annotations__} == {
            "ttl": None,
            "run": None,
            "run_name": None,
            "name": None,
            "wait": 0.0,
            "priority": 0,
            "wait_for_pool": True,
            "ticket": None,
            "realms": (),
            "where": "",
            "prefer": (),
            "any_of": (),
        }
    for client in clients:
        options = inspect.signature(client.borrow_all).parameters
        assert {name: options[name].default for name in BundleOptions.__annotations__} == {
            "ttl": None, "run": None, "run_name": None, "name": None, "wait": 0.0, "priority": 0,
            "wait_for_pool": False, "ticket": None,
        }  # fmt: skip
    assert inspect.signature(hub.client.HubClient.leases).parameters["label"].default is None
    assert inspect.signature(hub.client.NodeAgent).parameters["pools"].default is ...


async def test_an_option_that_does_not_exist_is_refused():
    client = hub.client.HubClient("http://hub")
    with pytest.raises(TypeError, match=r"leases.*unexpected keyword argument 'lable'"):
        await client.leases(lable="gpu:a100")
    await client.close()
    with pytest.raises(TypeError, match=r"__init__.*unexpected keyword argument 'pool'"):
        hub.client.NodeAgent("n1", pool={"gpu:a100": 4})
    with hub.client.jobs.SyncJobsClient("http://hub") as jobs, pytest.raises(TypeError, match="'max_attempt'"):
        jobs.submit("@global:modifiers:Rotate", {}, "room-1", max_attempt=3)


def test_the_generated_classes_match_their_sources():
    assert [file.name for file, text in twins.written().items() if file.read_text() != text] == []


def test_every_entry_of_the_generator_is_used(monkeypatch: pytest.MonkeyPatch):
    tables = {name: dict(getattr(twins, name)) for name in ("NAMES", "TEXTS")}
    written = twins.written()
    for name, table in tables.items():
        for entry in table:
            monkeypatch.setattr(twins, name, {each: other for each, other in table.items() if each != entry})
            assert twins.written() != written, entry
        monkeypatch.setattr(twins, name, table)


def test_an_outdated_generated_class_is_named_and_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "hub" / "client"
    shutil.copytree(twins.CLIENT, folder)
    monkeypatch.setattr(twins, "CLIENT", folder)
    source = folder / "borrower.py"
    source.write_text(source.read_text().replace("async def pools(", "async def all_pools("))
    assert twins.main("--check") == 1
    assert "hub/client/sync_borrower.py is not what its source says: run `make twins`." in capsys.readouterr().err
    assert twins.main() == 0
    assert "    def all_pools(" in (folder / "sync_borrower.py").read_text()
    assert twins.main("--check") == 0


def test_help_of_a_class_shows_its_options():
    shown = io.StringIO()
    with redirect_stdout(shown):
        help(hub.client.NodeAgent.__init__)
        help(hub.client.jobs.SyncJobsClient.submit)
        help(hub.client.SyncHubClient.sessions)
    for option in ("on_lent: ", "max_silence: ", "max_attempts: int", "idempotency_key: str", "pool: "):
        assert option in shown.getvalue()
