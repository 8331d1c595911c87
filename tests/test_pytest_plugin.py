"""The plugin of pytest, in runs of pytest of their own against a real hub."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import httpx
import pytest

from tests.alone import make_environment
from tests.cli.command import register
from tests.world import PATIENCE_S, SECRETS, HubProcess

pytest_plugins = ["pytester"]

LOADED = """
import sys, json, pytest, argparse, uuid
before = set(sys.modules)
import hub.pytest_plugin
print(json.dumps(sorted(set(sys.modules) - before)))
"""
# What the tests of a run share: the names of the slots that served them, and calls to the hub beside the plugin.
BESIDE = """
import os, httpx, pytest

def ask(method, path, body=None):
    secret = {"x-hub-secret": os.environ["HUB_RUNNER_SECRET"]}
    answer = httpx.request(method, os.environ["HUB_URL"] + path, headers=secret, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()

def end(slot):
    proof = {"revoke": True, "reason": "the rack is on fire"}
    ask("POST", "/session/return", {"label": slot.pool, "slotId": slot.id, **proof})
    assert slot.lost.wait(60)
"""


@pytest.fixture
def lending(start_hub: Callable[..., HubProcess], monkeypatch: pytest.MonkeyPatch) -> HubProcess:
    """A hub with two pools, which runs of pytest find in their environment; one borrow of a run may wait."""
    hub = start_hub(HUB_NODE_TIMEOUT="600", HUB_BORROW_QUEUE_MAX_PER_RUN="1", HUB_REVOKE_GRACE_SECONDS="0")
    address = "ws://user:pass@n1/g1?key=k"
    gpu = {"labelKey": "gpu:a100", "slotId": "g1", "endpoint": address, "attributes": {"index": 0}}
    register(hub, "n1", slots=[gpu, {"labelKey": "browser:chromium", "slotId": "b1"}])
    for name, text in {"HUB_URL": hub.url, **SECRETS}.items():
        monkeypatch.setenv(name, text)
    return hub


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run pytest in a process of its own on a file of tests, as a project would that has no conftest."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(beside=BESIDE)

    def started(tests: str, *words: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=tests)
        pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config\nasyncio_mode = auto\n")
        return pytester.runpytest_subprocess(*words, timeout=4 * PATIENCE_S)

    return started


def lent(hub: HubProcess) -> list[str]:
    answer = httpx.get(f"{hub.url}/sessions", headers={"x-hub-secret": hub.runner_secret}, timeout=PATIENCE_S)
    return [each["browserId"] for each in answer.json()["sessions"]]


def sentences(result: pytest.RunResult) -> str:
    """Return what a run has printed, which has no traceback in it."""
    text = result.stdout.str() + result.stderr.str()
    assert "Traceback" not in text
    assert "pytest_plugin.py" not in text
    return text


def test_importing_the_plugin_imports_nothing_else_of_the_hub():
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == ["hub", "hub.pytest_plugin"]


def test_a_run_that_uses_no_slot_imports_nothing_else_of_the_hub(run):
    result = run("""
        import sys

        def test_it(request):
            assert request.config.pluginmanager.hasplugin("capacity-hub")
            assert {name for name in sys.modules if name.split(".")[0] == "hub"} == {"hub", "hub.pytest_plugin"}
        """)  # fmt: skip
    result.assert_outcomes(passed=1)
    assert "hub slot" not in result.stdout.str()


def test_each_test_holds_the_slot_of_its_marker_or_else_of_the_option_and_its_report_says_which(
    run, lending: HubProcess, pytester: pytest.Pytester
):
    result = run("""
        import asyncio
        import pytest
        from beside import ask
        from hub.client import HubClient

        def test_plain(hub_slot):
            assert [each["browserId"] for each in ask("GET", "/sessions")["sessions"]] == ["b1"] == [hub_slot.id]

        @pytest.mark.hub_slot("gpu:a100")
        async def test_async(hub_slot):
            await asyncio.sleep(0)
            hub_slot.check()
            assert (hub_slot.address, hub_slot.ttl_s) == ("ws://user:pass@n1/g1?key=k", 120)
            async with HubClient() as client, client.borrow("browser:chromium") as other:
                assert other.id == "b1"

        @pytest.mark.hub_slot("gpu", where="index == 0")
        class TestClass:
            def test_of_a_class(self, hub_slot):
                assert hub_slot.id == "g1"

            @pytest.mark.hub_slot("browser:chromium")
            def test_with_a_marker_of_its_own(self, hub_slot):
                assert hub_slot.id == "b1"
                assert hub_slot.run.startswith("pytest-")
                assert False, "on purpose"
        """, "--hub-slot", "browser:chromium", "--hub-wait", "7", "--junitxml", "report.xml", "-rP")  # fmt: skip
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["hub slot: browser:chromium for each test, waiting up to 7 s"])
    shown = [line for line in result.stdout.lines if " of " in line and ", node n1, " in line]
    browser = "b1 of browser:chromium, node n1, no address"
    assert shown == [browser, browser, *["g1 of gpu:a100, node n1, ws://n1/g1"] * 2]  # the failure first
    cases = ElementTree.parse(pytester.path / "report.xml").iter("testcase")
    kept = [{each.get("name"): each.get("value") for each in case.iter("property")} for case in cases]
    assert kept[1] == {"hub_slot": "g1", "hub_node": "n1", "hub_endpoint": "ws://n1/g1"}
    assert [each["hub_slot"] for each in kept] == ["b1", "g1", "g1", "b1"]
    assert lent(lending) == []


def test_processes_of_xdist_wait_for_one_slot_in_turn_though_a_run_of_the_hub_may_wait_once(run, lending: HubProcess):
    result = run("""
        import time
        import pytest
        from beside import ask

        @pytest.mark.parametrize("number", range(3))
        def test_it(hub_slot, number, tmp_path_factory):
            shared = tmp_path_factory.getbasetemp().parent
            (shared / hub_slot.id).touch(exist_ok=False)  # fails while another test holds the same one
            if not (shared / "first").exists():
                (shared / "first").touch()
                while ask("GET", "/queue")["waiting"] < 2:
                    time.sleep(0.05)
            (shared / hub_slot.id).unlink()
        """, "-n", "3", "--hub-slot", "gpu:a100", "-rP")  # fmt: skip
    result.assert_outcomes(passed=3)
    assert result.stdout.str().count("g1 of gpu:a100, node n1, ws://n1/g1") == 3
    assert lent(lending) == []


def test_a_lost_lease_fails_the_test_that_used_it_once_and_with_the_reason(run, lending: HubProcess):
    result = run("""
        import pytest
        from beside import end
        from hub.client import SyncHubClient

        def test_that_passes(hub_slot):
            end(hub_slot)

        def test_that_fails_by_itself(hub_slot):
            end(hub_slot)
            assert "a browser" == "gone"

        def test_that_asks(hub_slot):
            end(hub_slot)
            hub_slot.check()

        @pytest.fixture
        def page(hub_slot):
            yield hub_slot
            end(hub_slot)

        def test_whose_fixture_lasts_longer(page):
            page.check()

        def test_that_gives_its_slot_back(hub_slot):
            with SyncHubClient() as client:
                client.give_back(hub_slot)
        """, "--hub-slot", "gpu:a100")  # fmt: skip
    result.assert_outcomes(passed=2, failed=3, errors=1)
    said = result.stdout.str()
    reason = "slot g1 of gpu:a100 is lost: the hub ended the lease (an operator ended it: the rack is on fire)"
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_whose_fixture_lasts_longer*", reason.replace("(", "[(]")])
    result.stdout.fnmatch_lines(["*_ test_that_passes _*", reason.replace("(", "[(]"), "*hub slot*"])
    assert "assert 'a browser' == 'gone'" in said
    assert said.count(f"\n{reason}\n") == 5  # two that had passed, and the sections of the three that failed
    assert "pytest_plugin.py" not in said
    assert lent(lending) == []


def test_a_test_that_gets_no_slot_says_why_in_one_sentence(run, lending: HubProcess):
    result = run("""
        import pytest
        from hub.client import SyncHubClient

        def test_without_label(hub_slot): ...

        @pytest.mark.hub_slot("gpu:a10O")
        def test_misspelt(hub_slot): ...

        @pytest.mark.hub_slot("gpu:a100", "gpu:h100")
        def test_marked_twice(hub_slot): ...

        @pytest.mark.hub_slot("not a label")
        def test_no_label(hub_slot): ...

        @pytest.mark.hub_slot("gpu", where="index >> 0")
        def test_no_expression(hub_slot): ...

        @pytest.mark.hub_slot("gpu:a100", were="index == 0")
        def test_misspelt_word(hub_slot): ...

        @pytest.fixture
        def one():
            with SyncHubClient() as client, client.borrow("gpu:a100") as slot:
                yield slot

        @pytest.mark.hub_slot("gpu:a100")
        def test_none_free(one, hub_slot): ...
        """, "--hub-wait", "0.1")  # fmt: skip
    result.assert_outcomes(errors=7)
    said = sentences(result)
    needed = 'hub_slot needs one label: --hub-slot LABEL, or @pytest.mark.hub_slot("LABEL") at the test.'
    assert said.count(f"\n{needed}\n") == 3
    assert "where: expected a number or a text, at position 8" in said
    assert "did you mean gpu:a100?" in said
    assert "it has too few segments" in said
    assert "Borrow timed out after 0.1s for gpu:a100" in said
    assert lent(lending) == []


def test_a_wait_that_is_no_number_is_refused_before_any_test_runs(run):
    result = run("def test_it(): ...", "--hub-wait", "soon")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "argument --hub-wait: invalid float value: 'soon'" in sentences(result)


@contextmanager
def refusing() -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of a server that refuses every secret, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = b'{"status": 401, "code": "unauthorized", "detail": "a wrong secret"}'
            self.send_response(401)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def test_a_hub_that_refuses_the_secret_is_asked_once_for_all_tests(run, monkeypatch: pytest.MonkeyPatch):
    with refusing() as (url, asked):
        monkeypatch.setenv("HUB_URL", url)
        monkeypatch.delenv("HUB_RUNNER_SECRET", raising=False)
        result = run("""
            import pytest

            @pytest.mark.parametrize("number", range(4))
            def test_it(number, hub_slot): ...
            """, "--hub-slot", "gpu:a100")  # fmt: skip
    result.assert_outcomes(errors=4)
    assert sentences(result).count("a wrong secret; no secret was shown: HUB_RUNNER_SECRET is not set") >= 4
    assert len(asked) == 1


@pytest.mark.slow
@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense"])
def test_a_hub_that_is_not_there_is_named_in_one_sentence(run, monkeypatch: pytest.MonkeyPatch, url: str):
    monkeypatch.setenv("HUB_URL", url)
    result = run("def test_it(hub_slot): ...", "--hub-slot", "gpu:a100")
    result.assert_outcomes(errors=1)
    assert "ERROR test_it.py::test_it - " in sentences(result)


@pytest.mark.slow
def test_the_plugin_works_where_only_the_client_is_installed(lending: HubProcess, wheel: Path, tmp_path: Path):
    python = make_environment(tmp_path / "environment", wheel, "pytest")
    (tmp_path / "test_it.py").write_text("def test_it(hub_slot):\n    assert hub_slot.id == 'g1'\n")
    words = [python, "-I", "-m", "pytest", "-W", "error", "--strict-markers", "--hub-slot", "gpu:a100", tmp_path]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=4 * PATIENCE_S)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr
    assert "plugins: capacity-hub-" in done.stdout
