"""Completion in a shell: of commands and options, and of ids, for which the hub is asked.

When the hub does not answer within two seconds, no ids are offered, and nothing is printed."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import typer
from typer import Argument

from hub.cli import output
from hub.cli.libraries import begin_completion

ASK_S = 2.0  # seconds for a list of ids: the user has pressed Tab and waits
MOST = 500
_LINE = "_TYPER_COMPLETE_ARGS"
_REALM = re.compile(r"(?<=\s)--realm[ =](\S+)\s+")
_REALM_NEXT = re.compile(r"\s--realm[ =](\S*)$")

# Other people choose ids, and bash puts an offered word into the line unquoted, so only these words are offered. A word
# that begins with a dash would be an option, and zsh replaces one that begins with = by the path of a command.
_SAFE = re.compile(r"[\w.:/@%+,][\w.:/@%+,=-]*")

# bash breaks words at colons, which labels and jobs have, so it gets only the part behind the last colon.
_BASH = """\
_hub_complete() {
    local line="${COMP_LINE:0:COMP_POINT}" word cut=""
    word="${line##*[[:space:]]}"
    [[ $COMP_WORDBREAKS == *:* ]] && cut="${word%"${word##*:}"}"
    COMPREPLY=()
    while IFS=$'\\t' read -r word _; do
        COMPREPLY+=("${word#"$cut"}")
    done < <(_HUB_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args _TYPER_COMPLETE_ARGS="$line" hub)
}
complete -o default -F _hub_complete hub
"""
# zsh gets words, which it quotes.
_ZSH = """\
#compdef hub
_hub_complete() {
    local -a found
    local word help
    while IFS=$'\\t' read -r word help; do
        [[ -n $word ]] && found+=("${word//:/\\\\:}${help:+:$help}")
    done < <(_HUB_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \\
        _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" hub)
    if (( $#found )); then
        _describe hub found
    else
        _files
    fi
}
compdef _hub_complete hub
"""
# fish offers files when the command, which is started once, offers no words.
_FISH = """\
function _hub_complete
    set -l found (env _HUB_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \\
        _TYPER_COMPLETE_ARGS=(commandline -cp | string collect) hub)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command hub --no-files --arguments '(_hub_complete)'
"""


def completion(shell: Literal["bash", "zsh", "fish"] = Argument(..., help="The shell.")) -> None:
    """Print the script that completes commands, options and ids, such as those of nodes and tasks, in a shell.

    bash: eval "$(hub completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc, after compinit. fish: hub completion
    fish > ~/.config/fish/completions/hub.fish.
    """
    output.put_rendered({"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell].rstrip("\n"))


def begin() -> list[str]:
    """Prepare to complete the line of a shell: take `--realm` out of it, and return that option with its value."""
    begin_completion()
    line = os.environ.get(_LINE, "")
    if asked := _REALM_NEXT.search(line):
        os.environ[_LINE] = f"hub --realm {asked[1]}"  # an option of `hub` itself
        return []
    named = _REALM.findall(line)
    os.environ[_LINE] = _REALM.sub("", line)
    return ["--realm", named[-1]] if named else []


@dataclass(frozen=True)
class Ids:
    """A source of ids: those at `path` in the answer of the hub to `GET where`; {room} is the room of the line.

    With `search` the hub returns only ids that contain the typed text, so that they are found among any number.
    """

    where: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    role: Literal["look", "runner", "admin"] = "look"
    search: bool = False

    async def ask(self, context: typer.Context, incomplete: str) -> set[str]:
        """Return the ids that the hub lists; raises `HubError`."""
        from hub.cli.connection import address, over_http  # imported here: only the completion of ids needs them
        from hub.cli.environment import environment
        from hub.client.calls import NEUTRAL, path
        from hub.client.exchange import RetryPolicy, Send, exchange

        room = context.params.get("room") or (incomplete.partition(":")[0] if ":" in incomplete else "@global")
        parts = [room if part == "{room}" else part for part in self.where.split("/")]
        query = {"limit": str(MOST), **self.query, **({"q": incomplete} if self.search and incomplete else {})}
        url, headers = context.params.get("url"), dict(NEUTRAL)
        if token := environment().get("HUB_TOKEN", "").strip() if self.where.startswith("v1/") else "":
            headers["authorization"] = f"Bearer {token}"
        async with over_http(address(url, "" if token else None, self.role)) as transport:
            send = Send("GET", path(*parts), query=query, headers=headers)
            answer = await transport.run(exchange(send, RetryPolicy(0.0, ASK_S)))
        return set(_at(answer.data, self.path.split(".")))


def _at(document: Any, path: list[str]) -> Iterator[str]:
    if isinstance(document, list):
        for item in document:
            yield from _at(item, path)
    elif path and isinstance(document, dict):
        yield from _at(document.get(path[0]), path[1:])
    elif isinstance(document, str):
        yield document


def _of(*sources: Ids) -> Callable[[typer.Context, str], list[str]]:
    """Return a completer with the ids of these sources that begin with the typed text and are safe in a shell."""

    async def ask(context: typer.Context, incomplete: str) -> list[set[str] | BaseException]:
        async with asyncio.timeout(ASK_S):
            return await asyncio.gather(
                *(source.ask(context, incomplete) for source in sources), return_exceptions=True
            )

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        unseen = io.StringIO()  # stderr is dropped: the user is typing a command line
        with contextlib.suppress(Exception), contextlib.redirect_stderr(unseen):
            import hub.cli.connection  # noqa: F401 - before the time limit of the hub begins

            answers = [ids for ids in asyncio.run(ask(context, incomplete)) if isinstance(ids, set)]
            fitting = (name for name in set().union(*answers) if name.startswith(incomplete) and _SAFE.fullmatch(name))
            return sorted(fitting)[:MOST]
        return []

    return complete


def _tasks(*statuses: str) -> Callable[[typer.Context, str], list[str]]:
    return _of(*(Ids("console/tasks", "tasks.id", {"status": status}, "admin") for status in statuses))


NODES = Ids("nodes", "nodes.nodeId", {"detail": "1"}, search=True)
SLOTS = Ids("sessions", "leases.slotId")
TICKETS = Ids("queue", "labels.tickets.ticket", {"limit": "20", "tickets": "25"})
WORKERS = Ids("v1/joblib/workers", "items.id", role="admin")
DEAD = Ids("v1/joblib/dead", "items.id", role="admin")

nodes, slots, tickets, workers, dead = map(_of, (NODES, SLOTS, TICKETS, WORKERS, DEAD))
anything = _of(NODES, SLOTS, TICKETS, WORKERS, DEAD)
pools = _of(Ids("pools", "pools.label", search=True))
runs = _of(Ids("sessions", "leases.runId"))
settings = _of(Ids("admin/settings", "settings.name"))
realms = _of(Ids("realms", "realms.name"))
tokens = _of(Ids("admin/tokens", "tokens.id", role="admin"))
jobs = _of(Ids("v1/joblib/rooms/{room}/jobs", "items.fullName", role="admin"))
providers = _of(Ids("v1/joblib/rooms/{room}/providers", "items.fullName", role="admin"))
schedules = _of(Ids("v1/joblib/rooms/{room}/schedules", "items.name", role="admin"))
tasks = _tasks("pending", "running", "completed", "failed", "cancelled")
tasks_open = _tasks("pending", "later", "blocked", "claimed", "running")
tasks_over = _tasks("failed", "cancelled")
