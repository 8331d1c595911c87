"""The kinds of values on a command line: the reader of each, its name in helps, and its completion in a shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from hub.cli import completing
from hub.cli.inputs import read_id, read_label
from hub.cli.job_inputs import read_full_name, read_uuid


class ValueKind(NamedTuple):
    """A kind of value: its name in helps, its reader, and the function that completes it with ids of the hub."""

    metavar: str
    read: Callable[[str], Any]
    complete: Callable[..., list[str]] | None = None

    def option(self, text: str, *names: str) -> Any:
        """Return an option for values of this kind, with this help; without `names` its parameter gives the name."""
        return typer.Option(*names, parser=self.read, metavar=self.metavar, help=text, autocompletion=self.complete)

    def argument(self, text: str) -> Any:
        """Return an argument for values of this kind, with this help."""
        return typer.Argument(parser=self.read, metavar=self.metavar, help=text, autocompletion=self.complete)


NODE = ValueKind("NODE", read_id, completing.nodes)
SLOT = ValueKind("SLOT", read_id, completing.slots)
RUN = ValueKind("RUN", read_id, completing.runs)
TICKET = ValueKind("TICKET", read_id, completing.tickets)
LABEL = ValueKind("LABEL", read_label, completing.pools)
JOB = ValueKind("JOB", read_full_name, completing.jobs)
PROVIDER = ValueKind("PROVIDER", read_full_name, completing.providers)
TASK = ValueKind("TASK", read_uuid, completing.tasks)
WORKER = ValueKind("WORKER", read_uuid, completing.workers)
TOKEN = ValueKind("ID", read_id, completing.tokens)

FullName = Annotated[str, JOB.argument("The full name of the job, ROOM:CATEGORY:NAME.")]
Payload = Annotated[str, typer.Argument(metavar="PAYLOAD", help="The payload, a JSON object; - reads it from stdin.")]
Priority = Annotated[
    int | None, typer.Option(min=-100, max=100, help="Each point counts as one second of waiting. Default: 0.")
]
MaxAttempts = Annotated[int | None, typer.Option(min=1, max=100, help="Try each task at most N times. Default: 1.")]
_THE_TASK = "The id of the task."
OpenTask = Annotated[str, TASK._replace(complete=completing.tasks_open).argument(_THE_TASK)]
EndedTask = Annotated[str, TASK._replace(complete=completing.tasks_over).argument(_THE_TASK)]
DeadTask = Annotated[str, TASK._replace(complete=completing.dead).argument(_THE_TASK)]
