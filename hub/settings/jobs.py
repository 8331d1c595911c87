"""The settings of the jobs API. Each may also be given as ZNDRAW_JOBLIB_ and the rest of its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic_settings import BaseSettings, SettingsConfigDict

from hub.settings.knobs import (
    YEAR_S,
    Knob,
    one_of,
    read_duration,
    read_integer,
    read_list,
    read_optional_list,
    read_path,
    read_switch,
    read_text,
)

_WHEN: Final = one_of("off", "submit")
_KIB: Final = 1024
_MIB: Final = 1024 * 1024


def _knob(
    name: str,
    read: Callable[[str], object],
    low: float | None = None,
    high: float | None = None,
    more: tuple[str, ...] = (),
) -> Knob:
    return Knob(name, read, low, high, aliases=(name.replace("HUB_", "ZNDRAW_JOBLIB_"), *more))


def _seconds(name: str, low: float = 0, high: float = YEAR_S, more: tuple[str, ...] = ()) -> Knob:
    return _knob(name, read_duration, low, high, more)


def _bytes(name: str, low: int, high: int) -> Knob:
    return _knob(name, read_integer, low, high)


class JobsSettings(BaseSettings):
    """The settings of the jobs API: rights, times, sizes."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tokens_file: Annotated[Path | None, _knob("HUB_TOKENS_FILE", read_path)] = None
    """A TOML file of bearer tokens beside those of `hub token`, read at start and on SIGHUP. Unset: only the latter."""
    teams_file: Annotated[Path | None, Knob("HUB_TEAMS_FILE", read_path)] = None
    """A TOML file of what teams are to have of pools, read at start and on SIGHUP. Unset: only `hub team` says it."""
    anonymous_reads: Annotated[bool, _knob("HUB_ANONYMOUS_READS", read_switch)] = True
    """true or 1 shows jobs, tasks, workers and providers without a token, under addresses and HUB_ALLOWED_HOSTS."""

    allowed_categories: Annotated[tuple[str, ...], _knob("HUB_ALLOWED_CATEGORIES", read_list)] = (
        "modifiers",
        "selections",
        "analysis",
    )
    """Categories of jobs, a JSON list, or * for all. Too few: workers are refused; too many: mistakes pass."""
    allowed_provider_categories: Annotated[
        tuple[str, ...] | None, _knob("HUB_ALLOWED_PROVIDER_CATEGORIES", read_optional_list)
    ] = None
    """Categories of providers, a JSON list. Unset or *: any. Too few: workers are refused; too many: mistakes pass."""
    internal_jobs: Annotated[str, _knob("HUB_INTERNAL_JOBS", read_text)] = ""
    """Where the @internal jobs are defined, as MODULE:NAME. Empty: this hub offers none."""

    worker_timeout_s: Annotated[float, _seconds("HUB_WORKER_TIMEOUT_SECONDS", 1)] = 60.0
    """Silence after which a worker is gone. Below twice its beat: pauses cost workers; too high: its tasks hang."""
    worker_sweep_interval_s: Annotated[float, _seconds("HUB_SWEEPER_INTERVAL_SECONDS", 0.05)] = 30.0
    """Pause between sweeps for dead workers. Too low: work for nothing; too high: their tasks fail later."""
    sio_disconnect_grace_s: Annotated[float, _seconds("HUB_SIO_DISCONNECT_GRACE_SECONDS")] = 5.0
    """How long a worker may reconnect its socket. Too low: short cuts cost workers; too high: the dead hold tasks."""
    internal_task_timeout_s: Annotated[float, _seconds("HUB_INTERNAL_TASK_TIMEOUT_SECONDS", 1)] = 3600.0
    """Longest run of an @internal task. Too low: slow ones fail; too high: those of a dead executor hang."""

    long_poll_max_wait_s: Annotated[float, _seconds("HUB_LONG_POLL_MAX_WAIT_SECONDS", 0, 3600)] = 60.0
    """Longest wait for the end of a task. Too low: callers ask again and again; too high: proxies cut them off."""
    provider_long_poll_default_s: Annotated[float, _seconds("HUB_PROVIDER_LONG_POLL_DEFAULT_SECONDS", 0, 3600)] = 5.0
    """How long a read waits for its provider. Too low: slow providers time out; too high: dead ones hold readers up."""
    provider_long_poll_max_s: Annotated[float, _seconds("HUB_PROVIDER_LONG_POLL_MAX_SECONDS", 0, 3600)] = 30.0
    """Longest wait a reader may ask for. Too low: slow providers time out; too high: proxies cut readers off."""
    provider_result_ttl_s: Annotated[float, _seconds("HUB_PROVIDER_RESULT_TTL_SECONDS", 1)] = 300.0
    """How long a provider's answer is reused. Too low: it is asked over and over; too high: readers see old data."""
    provider_inflight_ttl_s: Annotated[float, _seconds("HUB_PROVIDER_INFLIGHT_TTL_SECONDS", 1)] = 30.0
    """How long one request to a provider stands for all. Too low: asked twice; too high: lost ones are not repeated."""

    task_retention_s: Annotated[
        float,
        _seconds(
            "HUB_TASK_RETENTION_SECONDS",
            0,
            100 * YEAR_S,
            ("HUB_TERMINAL_TASK_RETENTION_SECONDS", "ZNDRAW_JOBLIB_TERMINAL_TASK_RETENTION_SECONDS"),
        ),
    ] = 604_800.0
    """How long finished tasks are kept; 0: for ever. Too low: gone before they are read; too high: about 1 kB each."""
    task_payload_max_bytes: Annotated[int, _bytes("HUB_TASK_PAYLOAD_MAX_BYTES", _KIB, 64 * _MIB)] = _MIB
    """Longest payload of a task. Too low: large ones get 413; too high: rubbish takes memory."""
    task_result_max_bytes: Annotated[int, _bytes("HUB_TASK_RESULT_MAX_BYTES", _KIB, 64 * _MIB)] = _MIB
    """Longest result of a task. Too low: tasks fail that come to more; too high: memory as long as tasks are kept."""
    validate_payloads: Annotated[Literal["off", "submit"], Knob("HUB_VALIDATE_PAYLOADS", _WHEN)] = "off"
    """submit: a payload that does not fit its job's schema is 422. off: found out late; submit: too strict."""
    schema_max_bytes: Annotated[int, _bytes("HUB_SCHEMA_MAX_BYTES", _KIB, 16 * _MIB)] = 256 * _KIB
    """Longest schema of a job or provider. Too low: large ones get 413; too high: rubbish takes memory."""
    provider_result_max_bytes: Annotated[int, _bytes("HUB_PROVIDER_RESULT_MAX_BYTES", _KIB, 256 * _MIB)] = 16 * _MIB
    """Longest answer of a provider. Too low: large ones get 413; too high: each is held in memory and in Redis."""
    provider_room_max_bytes: Annotated[int, _bytes("HUB_PROVIDER_ROOM_MAX_BYTES", _KIB, 64 * 1024 * _MIB)] = 256 * _MIB
    """Answers kept per room; the oldest go. Too low: asked over and over; too high: one room fills the Redis of all."""


def contradictions(settings: JobsSettings) -> list[str]:
    """Return a sentence for each pair of settings of the jobs API whose values do not go together."""
    found = []
    if settings.worker_sweep_interval_s >= settings.worker_timeout_s:
        found.append(
            "HUB_SWEEPER_INTERVAL_SECONDS is not below HUB_WORKER_TIMEOUT_SECONDS; "
            "a dead worker is noticed late by up to one interval"
        )
    if settings.provider_long_poll_default_s > settings.provider_long_poll_max_s:
        found.append(
            "HUB_PROVIDER_LONG_POLL_DEFAULT_SECONDS is above HUB_PROVIDER_LONG_POLL_MAX_SECONDS; "
            f"no read waits longer than {settings.provider_long_poll_max_s:g} s"
        )
    return found
