"""The import of Python objects that a setting names as MODULE:NAME."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hub.errors import StartRefused
from hub.settings.model import Settings


def import_named(field: str, default: str, where: str, settings: Settings) -> Any:
    """Return the object that the setting `field` names; raises `StartRefused`, whose text begins with `where`.

    When the setting names only a module, the object is its `default`. The module is also searched for in the working
    directory, where people keep it. A module that a `.env` file names is not: any folder in which the hub is started
    could then have code run.
    """
    module, _, name = str(getattr(settings, field)).partition(":")
    name = name or default
    from_file = field in settings.from_env_file
    try:
        with _installed_only() if from_file else _working_directory_too():
            found = getattr(importlib.import_module(module), name, None)
    except (Exception, SystemExit) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".: ")
        if from_file and isinstance(error, ModuleNotFoundError):
            variable = where.partition("=")[0]
            why += f"; as {settings.env_file} names it, it has to be installed, or {variable} set in the environment"
        raise StartRefused(f"{where}: {module} cannot be imported: {why}.") from error
    if found is None:
        raise StartRefused(f"{where}: the module {module} has no `{name}`.")
    return found


@contextmanager
def _working_directory_too() -> Iterator[None]:
    # A program that is started by an installed script finds only installed modules.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    yield


@contextmanager
def _installed_only() -> Iterator[None]:
    kept = list(sys.path)
    here = Path.cwd()
    sys.path[:] = [folder for folder in kept if Path(folder).absolute() != here and not _is(folder, here)]
    try:
        yield
    finally:
        sys.path[:] = kept


def _is(folder: str, here: Path) -> bool:
    try:
        return os.path.samefile(folder, here)
    except OSError:  # no folder: an archive, or missing
        return False
