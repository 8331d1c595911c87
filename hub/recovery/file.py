"""Declarations of sources: a TOML file with one `[[sources]]` table for each source, or a Python module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hub.errors import SourceRefused, StartRefused
from hub.recovery.models import KINDS, Source, no_such_field, refusal, shown
from hub.settings import Settings, load_settings, mask_url, read_environment
from hub.settings.modules import import_named
from hub.settings.toml import read_toml

NAME = "sources"  # the name in the module, unless the setting names another

S = TypeVar("S", bound=Source)
Found = Iterator[Source | StartRefused]


def declared(settings: Settings) -> list[Source]:
    """Return the sources of the settings' file and module; raises `SourceRefused` or `StartRefused` for a fault."""
    return _all_or_none(*survey(settings))


def read_sources(path: Path | str, threshold_minutes: float | None = None) -> list[Source]:
    """Return the sources of a file. A source without a threshold gets `threshold_minutes`, else that of the settings.

    Raises `SourceRefused` in one sentence that names the file, the source and the field.
    """
    return _all_or_none(*_sorted(_from_file(Path(path), str(path), threshold_minutes)))


def read_source(path: Path | str, name: str) -> Source:
    """Return the source of this name from the file, even when other sources of the file are faulty.

    A source without a threshold gets that of the settings. Raises `SourceRefused` if it is faulty or not in the file.
    """
    sources, refused = _sorted(_from_file(Path(path), str(path), None))
    for source in sources:
        if source.name == name:
            return source
    for error in refused:
        if error.facts.get("source") in (name, None):
            raise error
    raise SourceRefused(f"{path}: no source is called {name!r}; there are {', '.join(each.name for each in sources)}.")


def survey(settings: Settings, file: Path | None = None) -> tuple[list[Source], list[StartRefused]]:
    """Return the sound sources of the settings (or of `file`), and an error for each faulty source.

    `facts["source"]` of an error is the name of the faulty source, where the name is known.
    """
    default = settings.zombie_stuck_threshold_minutes
    if file is not None:
        return _sorted(_from_file(file, str(file), default))
    found: list[Source | StartRefused] = []
    if settings.recovery_file:
        found += _from_file(settings.recovery_file, f"HUB_RECOVERY_FILE={settings.recovery_file}", default)
    if settings.recovery_sources:
        found += _from_python(settings, default)
    return _sorted(found)


def _all_or_none(sources: list[Source], refused: list[StartRefused]) -> list[Source]:
    if refused:
        raise refused[0]
    return sources


def _sorted(found: Iterable[Source | StartRefused]) -> tuple[list[Source], list[StartRefused]]:
    sources: dict[str, Source] = {}
    refused = []
    for each in found:
        if isinstance(each, StartRefused):
            refused.append(each)
        elif each.name in sources:
            refused.append(each.refused("name", "there is another source of this name"))
        else:
            sources[each.name] = each
    return list(sources.values()), refused


def _from_file(path: Path, where: str, threshold_minutes: float | None) -> Found:
    try:
        entries = read_toml(where, path, NAME)
    except StartRefused as error:
        yield SourceRefused(error.detail)
        return
    variables = read_environment()
    for number, entry in enumerate(entries, 1):
        try:
            yield _placed(_source(entry, variables), where, threshold_minutes)
        except SourceRefused as error:
            facts = error.facts
            yield refusal(facts["source"], facts["field"], facts["why"], where, number)


def _from_python(settings: Settings, threshold_minutes: float) -> Found:
    named = settings.recovery_sources
    where = f"HUB_RECOVERY_SOURCES={named}"
    try:
        found = import_named("recovery_sources", NAME, where, settings)
    except StartRefused as error:
        cause = error.__cause__
        if isinstance(cause, SourceRefused):
            yield SourceRefused(f"{where}, {cause.detail}", **cause.facts)
        else:
            yield StartRefused(mask_url(str(error)))
        return
    if not isinstance(found, Sequence) or not all(isinstance(each, Source) for each in found):
        yield StartRefused(f"{where}: `{named.partition(':')[2] or NAME}` is no list of sources.")
        return
    for source in found:
        yield _placed(source, where, threshold_minutes)


def with_threshold(source: S, threshold_minutes: float | None = None) -> S:
    """Return the source; one without a threshold gets `threshold_minutes`, else the threshold of the settings."""
    if "threshold_minutes" in source.model_fields_set:
        return source
    if threshold_minutes is None:
        # Recovery lends a record to another worker after the hub's threshold, so a worker must use the same threshold.
        threshold_minutes = load_settings().zombie_stuck_threshold_minutes
    return source.model_copy(update={"threshold_minutes": threshold_minutes})


def _placed(source: Source, where: str, threshold_minutes: float | None) -> Source:
    source = with_threshold(source, threshold_minutes)
    source.declared_in(where)
    return source


def _source(entry: dict[str, Any], variables: Mapping[str, str]) -> Source:
    entry = {"kind": "sql", **entry}
    kind = KINDS.get(entry["kind"]) if isinstance(entry["kind"], str) else None
    if kind is None:
        raise refusal(entry.get("name"), "kind", f"it must be one of {', '.join(KINDS)}{shown(entry['kind'])}")
    if "url_env" in entry:
        entry["url"] = _from_environment(entry, kind, variables)
        del entry["url_env"]
    return kind.model_validate(entry)


def _from_environment(entry: dict[str, Any], kind: type[Source], variables: Mapping[str, str]) -> str:
    named, wrong = entry["url_env"], partial(refusal, entry.get("name"), "url_env")
    if "url" not in kind.model_fields:
        raise wrong(no_such_field(kind, "url_env"))
    if "url" in entry:
        raise wrong("url is there as well; give one of them")
    if not isinstance(named, str) or not re.fullmatch(r"\w{1,100}", named):
        raise wrong(f"it must be the name of a variable of the environment{shown(named)}")
    if not variables.get(named, "").strip():
        raise wrong(f"the environment has no {named!r}, or nothing in it")
    return variables[named].strip()
