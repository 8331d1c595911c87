"""Completion in a shell: words of the command line, and ids that the hub is asked for. A hub that does not answer at
once is not waited for, and nothing is said about it."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from hub.cli import output

ASK_S = 2.0  # for a list of ids: the user who presses Tab waits for it
MOST = 500

# bash breaks words at colons, which labels and jobs have: it is told what is behind the last one alone.
_BASH = """\
_hub_complete() {
    local line="${COMP_LINE:0:COMP_POINT}" IFS=$'\\n' word cut=""
    word="${line##*[[:space:]]}"
    [[ $COMP_WORDBREAKS == *:* ]] && cut="${word%"${word##*:}"}"
    COMPREPLY=($(_HUB_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \\
        _TYPER_COMPLETE_ARGS="$line" hub | cut -f1))
    COMPREPLY=("${COMPREPLY[@]#"$cut"}")
}
complete -o default -F _hub_complete hub
"""


class Shell(StrEnum):
    """Shells that can be told."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print what makes a shell complete commands, options and the ids of nodes, pools and lent slots.

    bash: eval "$(hub completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc, after compinit. fish: hub completion
    fish > ~/.config/fish/completions/hub.fish.
    """
    from typer._completion_shared import get_completion_script

    script = _BASH
    if shell is not Shell.bash:
        script = get_completion_script(prog_name="hub", complete_var="_HUB_COMPLETE", shell=shell.value)
    output.put(script.rstrip("\n"))


def begin() -> None:
    """Know the shells, in a process that one of them asks."""
    from typer._completion_classes import completion_init

    completion_init()


def _of(member: str, noun: str, *path: str, **query: Any) -> Callable[[typer.Context, str], list[str]]:
    """Completes with `member` of what the hub lists under a path."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        said = io.StringIO()  # beside a command line that is being typed nothing is said
        with contextlib.suppress(Exception), contextlib.redirect_stderr(said):
            found = asyncio.run(_ask(context.params.get("url"), path or (noun,), query))
            names = (str(each.get(member)) for each in found.get(noun, ()))
            return sorted(name for name in names if name.startswith(incomplete))
        return []

    return complete


async def _ask(url: str | None, path: tuple[str, ...], query: dict[str, Any]) -> dict[str, Any]:
    from hub.cli.reach import Reach, address, over_http  # only who presses Tab behind an id waits for these

    async with asyncio.timeout(ASK_S), over_http(address(url, None, "look")) as transport:
        try:
            return await Reach(transport).get(*path, **query)
        finally:
            await transport.close()


nodes = _of("nodeId", "nodes", detail=1, limit=MOST)
pools = _of("label", "pools", limit=MOST)
slots = _of("slotId", "leases", "sessions", limit=MOST)
