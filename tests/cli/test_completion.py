"""Completion: bash is asked as Tab asks it, zsh and fish as their scripts ask the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import typer

from hub.cli import completing
from hub.cli.app import app
from tests.cli.command import Command, leave, register
from tests.world import PATIENCE_S, HubProcess, wait_until

SHELLS = ("bash", "zsh", "fish")
ROOM = "tab"  # of this module, in the hub that others use as well
JOB = f"{ROOM}:modifiers:Turn"
ASKED = ("_HUB_COMPLETE", "_TYPER_COMPLETE_FISH_ACTION", "_TYPER_COMPLETE_ARGS")


@pytest.fixture(autouse=True)
def fleet(announce: Callable[..., None]) -> None:
    announce("rack-7", pools={"gpu:a100:eu": 1})
    announce("rack-8", pools={"gpu:h100": 1})


@pytest.fixture(scope="module")
def ids(shared_hub: HubProcess) -> Iterator[dict[str, str]]:
    """The id of one thing of each kind in the hub."""
    with httpx.Client(
        base_url=shared_hub.url, headers={"x-hub-secret": shared_hub.admin_secret}, timeout=PATIENCE_S
    ) as api:

        def made(method: str, path: str, body: Any = None, **headers: str) -> Any:
            answer = api.request(method, path, json=body, headers=headers)
            assert answer.is_success, answer.text
            return answer.json() if answer.content else None

        rooms = f"/v1/joblib/rooms/{ROOM}"
        job = made("PUT", f"{rooms}/jobs", {"category": "modifiers", "name": "Turn"})
        task, failed = (made("POST", f"{rooms}/tasks/{JOB}", {"payload": {}})["id"] for _ in range(2))
        made("PATCH", f"/v1/joblib/tasks/{failed}", {"status": "cancelled"})
        made("PUT", f"{rooms}/schedules/nightly", {"job": JOB, "cron": "0 2 * * *", "payload": {}})
        made(
            "PUT",
            f"{rooms}/providers",
            {"category": "frames", "name": "Disk", "schema": {}, "worker_id": job["worker_id"]},
        )
        token = made("POST", "/admin/tokens", {"user": "ann"})["id"]
        runner = {"x-hub-secret": shared_hub.runner_secret}
        register(shared_hub, "tabbed", pools={"tab:one": 1})
        lent = made("POST", "/session/borrow", {"labelKey": "tab:one", "runId": "run-of-tab"}, **runner)
        with ThreadPoolExecutor() as pool:
            waits = {"idempotency-key": "ticket-of-tab", **runner}
            wanted = {"labelKey": "tab:one"}
            waiting = pool.submit(api.post, "/session/borrow", json=wanted, headers=waits, timeout=None)
            wait_until(lambda: made("GET", "/queue?label=tab:one")["waiting"] == 1)
            [queue] = made("GET", "/queue?label=tab:one")["labels"]
            yield {
                "WORKER": job["worker_id"], "TASK": task, "CANCELLED": failed, "TOKEN": token,
                "TICKET": queue["tickets"][0]["ticket"], "SLOT": lent["browserId"],
            }  # fmt: skip
            made("DELETE", f"/queue/{queue['tickets'][0]['ticket']}")
            waiting.result()
        leave(shared_hub, "tabbed")
        made("DELETE", f"/v1/joblib/workers/{job['worker_id']}")
        made("DELETE", f"/admin/tokens/{token}")
        made("DELETE", f"{rooms}/schedules/nightly")
        made("PATCH", f"/v1/joblib/tasks/{task}", {"status": "cancelled"})


def in_bash(command: Command, line: str, tmp_path: Path) -> list[str]:
    """Return the word that bash completes at the end of a line.

    `hub` runs beside bash, with the variables that bash has set for it, and what it says goes back to bash.
    """
    script = tmp_path / "completion.bash"
    script.write_text(command("completion", "bash").stdout)
    asks = f"""
        hub() {{ printf '%s\\n' {" ".join(f'"${name}"' for name in ASKED)} >&2; cat; }}
        source {script}
        COMP_LINE='{line}' COMP_POINT={len(line)}
        _hub_complete
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    bash = subprocess.Popen(
        ["bash", "--norc", "-c", asks], env=command.environment, stdin=-1, stdout=-1, stderr=-1, text=True
    )
    assert bash.stderr
    asked = {name: bash.stderr.readline().removesuffix("\n") for name in ASKED}
    done = command(**asked)
    out, err = bash.communicate(done.stdout, PATIENCE_S)
    assert (done.returncode, bash.returncode, done.stderr, err) == (0, 0, "", "")
    return out.split()


def until_in_bash(command: Command, line: str, tmp_path: Path, fits: Callable[[list[str]], bool]) -> None:
    """A Tab waits two seconds at most for the hub; it is pressed again where the machine is busy."""
    words: list[str] = []

    def asked() -> bool:
        words[:] = in_bash(command, line, tmp_path)
        return fits(words)

    wait_until(asked, PATIENCE_S, lambda: str(words))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("hub no", ["node"]),
        ("hub node dr", ["drain"]),
        ("hub node show rack", ["rack-7", "rack-8"]),
        ("hub drain rack-7", ["rack-7"]),
        ("hub borrow gpu:a", ["a100:eu"]),  # bash has broken the word behind the colon
        ("hub borrow --wait-", ["--wait-for-pool"]),
        ("hub node show nobody", []),
    ],
)
def test_bash_completes_commands_options_and_ids(command: Command, tmp_path: Path, line: str, found: list[str]):
    until_in_bash(command, line, tmp_path, lambda words: words == found)


@pytest.mark.parametrize(
    ("line", "found"),
    {
        "hub task show ": "TASK", "hub task cancel ": "TASK", "hub task retry ": "CANCELLED", "hub cancel ": "TASK",
        "hub worker show ": "WORKER", "hub events --worker ": "WORKER", "hub token revoke ": "TOKEN",
        "hub token show ": "TOKEN", "hub queue cancel ": "TICKET", "hub queue show ": "TICKET",
        "hub return ": "SLOT", "hub lease show ": "SLOT", "hub lease ls --run run-o": "run-of-tab",
        f"hub job show {ROOM}:": "modifiers:Turn", f"hub job show --room {ROOM} {ROOM}:m": "modifiers:Turn",
        f"hub submit {ROOM}:": "modifiers:Turn", f"hub autoscale --job {ROOM}:": "modifiers:Turn",
        f"hub provider show {ROOM}:": "frames:Disk", f"hub schedule pause --room {ROOM} ": "nightly",
        "hub realm show ": "default", "hub --realm ": "default", "hub node ls --realm def": "default",
        "hub config set HUB_NODE": "HUB_NODE_TIMEOUT",
        "hub events --pool tab": "tab:one", "hub why rack-8": "rack-8",
    }.items(),
)  # fmt: skip
def test_bash_completes_every_kind_of_id_that_a_command_takes(
    command: Command, tmp_path: Path, ids: dict[str, str], line: str, found: str
):
    until_in_bash(command, line, tmp_path, lambda words: ids.get(found, found) in words)


def test_completion_is_silent_when_the_hub_refuses_the_secret(command: Command, tmp_path: Path):
    command.environment |= {"HUB_RUNNER_SECRET": "wrong", "HUB_ADMIN_SECRET": "wrong"}
    assert [in_bash(command, line, tmp_path) for line in ("hub token show ", "hub queue show ")] == [[], []]


PREPARE = {
    "bash": (["bash", "--norc", "-i"], 'eval "$(hub completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(hub completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "hub completion fish | source"),
}


def with_hub(folder: Path) -> dict[str, str]:
    """The variables of a shell at home in a folder, where it finds `hub`."""
    (folder / "hub").write_text(f'#!/bin/sh\nexec {sys.executable} -m hub.cli "$@"\n')
    (folder / "hub").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_tab_completes_a_command_in_a_real_shell(
    terminal, command: Command, tmp_path: Path, shell: str, ids: dict[str, str]
):
    """The command is run with what Tab has made of the line: what it shows is of the thing that was meant."""
    program, prepare = PREPARE[shell]
    seen = terminal(command, program=program, more=with_hub(tmp_path))
    seen.type(f"{prepare}; echo pre''pared\n")
    seen.until("prepared")
    for line, shown in (
        ("hub node sho\track-7\t", "gpu:a100:eu"),
        ("hub pool show gpu:h\t", "MAINTENANCE"),
        (f"hub job show {ROOM}:\t", ids["WORKER"]),
    ):
        printed = ""
        for _ in range(5):  # as above
            before = len(seen.shown)
            seen.type(f"{line}; echo that is o''ver\n")
            wait_until(lambda before=before: "that is over" in seen.shown[before:], 60, lambda: repr(seen.shown))
            printed = seen.shown[before:]
            if shown in printed:
                break
        assert shown in printed
    seen.type("exit\n")
    seen.end()
    assert "Traceback" not in seen.shown


# What a stranger may call a node: each would run a command, name another hub or stand for other words in some shell.
HOSTILE = (
    "$(touch run)", "`touch run`", ";touch run;", "'$(touch run)'", '"$(touch run)"', "''$(touch run)''", "|touch run|",
    "&touch run&", "\\$(touch run)", "${(e):-$(touch run)}", "))';touch run;'", "<(touch run)", ">run", " touch run",
    "*", "?", "[ab]", "{a,b}", "~", "!!", "#", "^a^b", "(touch run)", "\t$(touch run)", "\n$(touch run)", "\u202eab",
    "\x9b31m",
)  # fmt: skip
AT_THE_BEGINNING = ("--url=http://127.0.0.1:9/lure", "-h", "=ls", "~root")


@pytest.fixture
def strangers(shared_hub: HubProcess) -> Iterator[None]:
    """Nodes that are called like commands, alone and beside one with an ordinary name."""
    names = [
        "lure-good",
        "luck-$(touch run)",
        *(f"lure-{at}{name}" for at, name in enumerate(HOSTILE) if name.isprintable()),
    ]
    for name in names:
        register(shared_hub, name)
    yield
    for name in names:
        leave(shared_hub, quote(name, safe=""))


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_completion_never_executes_the_name_of_a_node(
    terminal, command: Command, tmp_path: Path, strangers, shell: str
):
    program, prepare = PREPARE[shell]
    seen = terminal(command, program=program, more=with_hub(tmp_path))
    seen.type(f"cd {tmp_path}; {prepare}; echo pre''pared\n")
    seen.until("prepared")
    for typed in ("luck-", "lure-"):
        for _ in range(5):  # as above
            before = len(seen.shown)
            seen.type(f"hub node show {typed}\t; echo that is o''ver\n")
            wait_until(lambda before=before: "that is over" in seen.shown[before:], 60, lambda: repr(seen.shown))
            if "lure-good" in seen.shown[before:]:
                break
        assert not (tmp_path / "run").exists()
    assert "lure-good" in seen.shown
    seen.type("exit\n")
    seen.end()


def walked(command: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
    """Every parameter of every command below one, with the context that it is completed in."""
    for parameter in command.params:
        yield f"{context.command_path} {parameter.name}", parameter, context
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        _, below, _ = command.resolve_command(context, [name])
        yield from walked(below, type(context)(below, parent=context, info_name=name))


def test_no_completed_word_has_a_special_meaning_for_a_shell(monkeypatch):
    good = {"good", "rack-7.eu_1", "gpu:a100:eu", "@global:m:Turn", "a/b", "a@b", "a=b", "a+b", "a%b,c", "grün"}

    async def ask(*_: Any) -> set[str]:
        return good | {f"{lead}{name}" for name in HOSTILE for lead in ("", "a", "good")} | set(AT_THE_BEGINNING)

    monkeypatch.setattr(completing.Ids, "ask", ask)
    root = typer.main.get_command(app)
    asked = 0
    for name, parameter, context in walked(root, typer.Context(root, info_name="hub")):
        offered = {item.value for item in parameter.shell_complete(context, "")}
        if "good" in offered:
            asked += 1
            assert (name, offered) == (name, good)
        assert not offered & {*HOSTILE, *AT_THE_BEGINNING}
    assert asked > 60


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish")
def test_fish_starts_the_command_once_for_each_tab_and_offers_files_as_a_fallback(command: Command, tmp_path: Path):
    (tmp_path / "hub.fish").write_text(command("completion", "fish").stdout)
    (tmp_path / "hub").write_text(
        '#!/bin/sh\necho started >> starts\n[ "$_TYPER_COMPLETE_ARGS" = "hub d" ] && echo drain\n'
    )
    (tmp_path / "hub").chmod(0o755)
    (tmp_path / "copy.rdb").touch()
    environment = {**command.environment, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    asks = "source hub.fish; complete -C 'hub d'; echo; complete -C 'hub store load copy'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asks], env=environment, cwd=tmp_path, capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (["drain", "copy.rdb"], "")
    assert (tmp_path / "starts").read_text().count("started") == 2


def test_completion_is_silent_when_no_hub_listens(command: Command, tmp_path: Path):
    command.environment |= {"HUB_URL": "http://127.0.0.1:9"}
    assert in_bash(command, "hub node show rack", tmp_path) == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_answers_the_protocol_of_other_shells(command: Command, shell: str):
    asked = {
        "_HUB_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "hub node show rack",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }  # fmt: skip
    script = command("completion", shell).stdout
    assert [name in script for name in ("_HUB_COMPLETE", "_TYPER_COMPLETE_ARGS")] == [True, True]
    done = command(**asked)
    assert ("rack-7" in done.stdout, "rack-8" in done.stdout, done.stderr) == (True, True, "")


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_each_shell_can_parse_its_completion_script(command: Command, shell: str, tmp_path: Path):
    script = tmp_path / "script"
    script.write_text(command("completion", shell).stdout)
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
