"""The sources of settings: the environment of the process, then the nearest `.env` file."""

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from hub.settings.envfile import EnvFile, nearest
from hub.settings.knobs import Knob

_OWN_PREFIXES = ("HUB_", "ZNDRAW_JOBLIB_")
# The variables that clients of the hub read; they are no settings of the server.
CLIENT_NAMES = {
    "HUB_URL": "Where the hub is, for commands, agents, borrowers and workers. Unset: http://127.0.0.1:8080.",
    "HUB_TOKEN": "The bearer token of a worker or a submitter, where no other is given.",
    "HUB_NODE_ID": "The id of this node, for `hub agent`. Unset: the name of the host.",
    "HUB_JOIN_TOKEN": "A token that an agent exchanges for one of its own.",
    "HUB_NODE_TOKEN_FILE": "Where an agent keeps the token of its node.",
    "HUB_CA_FILE": "Authorities that clients trust beside those of the system, in PEM.",
    "HUB_CERT_FILE": "A certificate that clients show, in PEM.",
    "HUB_KEY_FILE": "The key of HUB_CERT_FILE. Unset: it is in the same file.",
}
# Variables that `hub borrow` sets for its command.
_TOLD_NAMES = frozenset({"HUB_RUN_ID", "HUB_LEASE_TOKEN"})
# Other variables that change how a hub runs.
_BESIDE = frozenset({"DISABLE_DOTENV", "FORWARDED_ALLOW_IPS"})
# Variables of others: container platforms set `HUB_SERVICE_HOST`, `HUB_PORT_8080_TCP` and so on for a service named
# "hub", and `hub borrow` sets those of the slot for its command.
_FOREIGN_PREFIXES = ("HUB_SERVICE_", "HUB_PORT_", "HUB_SLOT_")


class Environment(dict[str, str]):
    """The variables of the process and of the `.env` file that was read; `file` also says why nearer ones were not."""

    def __init__(self, variables: Mapping[str, str], file: EnvFile | None = None) -> None:
        file = file or EnvFile()
        super().__init__({**file.variables, **variables})
        self.file = file
        self._from_file = file.variables.keys() - variables.keys()

    def is_from_file(self, name: str) -> bool:
        """Return whether only the file sets the variable, and not the environment of the process."""
        return name in self._from_file


def read_environment(env: Mapping[str, str] | None = None, start: Path | None = None) -> Environment:
    """Return the variables of the process, and the others of the nearest `.env` at or above `start`.

    The environment of the process is not changed. With a mapping as `env` and no `start`, no file is read.
    """
    variables = dict(os.environ if env is None else env)
    if env is not None and start is None:
        return Environment(variables)
    if variables.get("DISABLE_DOTENV", "").strip() == "1":
        return Environment(variables)
    return Environment(variables, nearest(start or Path.cwd()))


def environment_name(variables: Mapping[str, str]) -> str:
    """Return the name of the environment, such as Production, with which the names of overrides end."""
    for name in ("HUB_ENVIRONMENT", "ASPNETCORE_ENVIRONMENT"):
        if text := variables.get(name, "").strip():
            return text
    return "Production"


def find_name(knob: Knob, variables: Mapping[str, str], environment: str) -> str | None:
    """Return the variable that sets the knob, or None when all of its variables are blank or unset."""
    names = [knob.name, *knob.aliases]
    if knob.per_environment:
        wanted = f"{knob.name}_{environment}"
        same = sorted(name for name in variables if name.lower() == wanted.lower())
        names = [wanted, f"{knob.name}_{environment.upper()}", *same, *names]
    return next((name for name in names if is_set(name, variables)), None)


def is_set(name: str, variables: Mapping[str, str]) -> bool:
    """Return whether the variable is set on purpose: not blank, and not a HUB_PORT set by a container platform."""
    text = variables.get(name, "").strip()
    return bool(text) and not (name == "HUB_PORT" and text.startswith("tcp://"))


def own_names(knobs: Iterable[Knob], variables: Mapping[str, str]) -> list[str]:
    """Return the names of variables that the hub or its clients read: settings, under any name, and others."""
    known = {*CLIENT_NAMES, *_TOLD_NAMES, *_BESIDE}
    prefixes: list[str] = []
    for knob in knobs:
        known |= {knob.name, *knob.aliases}
        prefixes += [f"{knob.name}_"] if knob.per_environment else []
    return sorted(name for name in variables if name in known or name.startswith(tuple(prefixes)))


def unknown_names(knobs: Iterable[Knob], variables: Mapping[str, str]) -> list[str]:
    """Return a sentence on each variable with a prefix of the hub that nothing reads, to show typing errors."""
    known = {name for knob in knobs for name in (knob.name, *knob.aliases)} | CLIENT_NAMES.keys() | _TOLD_NAMES
    prefixes = tuple(f"{knob.name}_" for knob in knobs if knob.per_environment)
    notes = []
    for name in sorted(variables):
        if not name.startswith(_OWN_PREFIXES) or name in known:
            continue
        if name.startswith((*_FOREIGN_PREFIXES, *prefixes)):
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        notes.append(
            f"{name} is no setting of this hub" + (f"; did you mean {near[0]}?" if near else " and is ignored")
        )
    return notes
