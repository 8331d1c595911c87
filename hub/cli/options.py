"""The options of commands: kinds of input, each with its reader, its name in helps and its completion in a shell.

A parameter of a command has its option as its default value. Those of several commands are declared here, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from typer import Argument, Option
from typer.core import TyperGroup

from hub.cli import completing
from hub.cli.inputs import read_full_name, read_id, read_label, read_room, read_stem, read_url, read_uuid, seconds


class Input(NamedTuple):
    """A kind of input: its name in helps, its reader, and the function that completes it with ids of the hub."""

    metavar: str
    read: Callable[[str], Any] | None = None
    complete: Callable[..., list[str]] | None = None

    def option(self, text: str, *names: str, default: Any = None) -> Any:
        """Return an option for input of this kind, with this help; without `names` its parameter gives the name."""
        return Option(default, *names, parser=self.read, metavar=self.metavar, help=text, autocompletion=self.complete)

    def argument(self, text: str, default: Any = ...) -> Any:
        """Return an argument for input of this kind, with this help; it is required unless it has a default."""
        return Argument(default, parser=self.read, metavar=self.metavar, help=text, autocompletion=self.complete)


NODE = Input("NODE", read_id, completing.nodes)
SLOT = Input("SLOT", read_id, completing.slots)
RUN = Input("RUN", read_id, completing.runs)
TICKET = Input("TICKET", read_id, completing.tickets)
LABEL = Input("LABEL", read_label, completing.pools)
STEM = Input("LABEL", read_stem, completing.pools)
REALM = Input("REALM", complete=completing.realms)
SETTING = Input("NAME", complete=completing.settings)
JOB = Input("JOB", read_full_name, completing.jobs)
PROVIDER = Input("PROVIDER", read_full_name, completing.providers)
SCHEDULE = Input("NAME", complete=completing.schedules)
TASK = Input("TASK", read_uuid, completing.tasks)
WORKER = Input("WORKER", read_uuid, completing.workers)
TOKEN_ID = Input("ID", read_id, completing.tokens)
NAME, TEXT, FILE, KEY = map(Input, ("NAME", "TEXT", "FILE", "KEY"))
SECRET_FILE = Input("@FILE|-")
SECONDS = Input("SECONDS", seconds(least=0))

# Options and arguments of several commands.
AS_JSON = Option(False, "--json", help="Print one JSON document.")
DRY_RUN = Option(False, "--dry-run", help="Show what would be done, and change nothing.")
URL = Input("URL", read_url).option("The hub. Default: HUB_URL, then http://127.0.0.1:8080.", "--url")
SECRET = SECRET_FILE.option(
    "A file with the secret, or - for stdin. Default: HUB_ADMIN_SECRET, HUB_RUNNER_SECRET or HUB_NODE_SECRET.",
    "--secret",
)
BEARER = SECRET_FILE.option(
    "A file with a bearer token of `hub token`, or - for stdin. Default: HUB_TOKEN, then the secret.", "--token"
)
ROOM = Input("ROOM", read_room).option("The room.", "--room")
COMMAND = Argument(None, metavar="-- COMMAND", help="The command to run, after two dashes.")
FULL_NAME = JOB.argument("The full name of the job, ROOM:CATEGORY:NAME.")
OPEN_TASK, ENDED_TASK, DEAD_TASK = (
    TASK._replace(complete=complete).argument("The id of the task.")
    for complete in (completing.tasks_open, completing.tasks_over, completing.dead)
)
PAYLOAD = Argument("{}", metavar="PAYLOAD", help="The payload, a JSON object; - reads it from stdin.")
PRIORITY = Option(None, min=-100, max=100, help="Each point counts as one second of waiting. Default: 0.")
MAX_ATTEMPTS = Option(None, min=1, max=100, help="Try each task at most N times. Default: 1.")


def list_limit(default: int) -> Any:
    """Return the option `--limit` of a list."""
    return Option(default, "--limit", min=1, max=1_000_000, help="Show at most N.")


class ShowsByDefault(TyperGroup):
    """A group of commands that runs `ls` when the first word is none of its commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words behind the group, with `ls` in front when they do not begin with a command."""
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["ls", *args]
        return super().parse_args(ctx, args)
