"""The log: one line on stderr for each event, such as `get_logger(...).info("node sweep", scanned=3, expired=1)`."""

import json
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, cast

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from hub.settings import Settings
from hub.settings.knobs import MASK, mask_url, read_level

_SECRET_NAME = re.compile(r"secret|password|authorization|api_?key", re.IGNORECASE)
_PLAIN_VALUE = re.compile(r"[^\s\"=]+")
# The fields at the front of every line, in this order; the other fields follow as `key=value`.
_FRONT = ("timestamp", "level", "event", "logger")
_PLAIN_ORJSON = orjson.OPT_NON_STR_KEYS | orjson.OPT_NAIVE_UTC


def get_logger(name: str) -> FilteringBoundLogger:
    """Return a logger. Its methods take the event in plain words, and facts about it as keyword arguments."""
    return cast(FilteringBoundLogger, structlog.stdlib.get_logger(name))


def configure_logs(settings: Settings) -> None:
    """Send every log line of this process, also those of libraries, to stderr, in format and level of the settings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, structlog.stdlib.add_log_level, *_shared()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                render_json if settings.log_format == "json" else render_text,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    _quieten_libraries()
    for name, level in parse_overrides(settings.log_level_overrides).items():
        logging.getLogger(name).setLevel(level)


def parse_overrides(text: str) -> dict[str, str]:
    """Return the levels in `LOGGER=LEVEL` pairs by logger; comma, semicolon or newline separate pairs. Unreadable pairs
    are left out."""
    levels: dict[str, str] = {}
    for pair in re.split(r"[,;\n]", text):
        name, equals, level = pair.partition("=")
        if not (name.strip() and equals):
            continue
        try:
            levels[name.strip()] = read_level(level)
        except ValueError:
            continue
    return levels


def _quieten_libraries() -> None:
    """Send the lines of libraries to the root handler, and drop those that are written for every request."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "fastapi", "asyncio", "httpx"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    for name in ("uvicorn.access", "httpx", "httpcore", "redis"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        _stamp,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        _drop_noise,
        mask_secrets,
    ]


def _stamp(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add the time in UTC, to the millisecond, as `timestamp`."""
    event["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return event


def _drop_noise(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Drop the field `color_message`, a copy of the message with terminal colours that uvicorn adds."""
    event.pop("color_message", None)
    return event


def mask_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace by `***` each value whose name looks like that of a secret, and the credentials in URLs, at any depth."""
    return cast(EventDict, _masked(event))


def _masked(value: object) -> object:
    match value:
        case str():
            return mask_url(value) if "://" in value else value
        case Mapping():
            return {
                key: MASK if item and not key.startswith("_") and _SECRET_NAME.search(key) else _masked(item)
                for key, item in ((str(name), item) for name, item in value.items())
            }
        case list() | tuple():
            return [_masked(item) for item in value]
        case _:
            return value


def render_text(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> str:
    """Return a line such as `2026-11-21T02:50:11.123Z INFO  node sweep scanned=3`, with a traceback if there is one."""
    traces = [str(event.pop(name)).split("\n") for name in ("exception", "stack") if event.get(name)]
    trace = "".join(f"\n{_one_line(line)}" for lines in traces for line in lines)
    front = f"{event.get('timestamp')} {str(event.get('level', '')).upper():<5} {_one_line(str(event.get('event')))}"
    facts = [f"{_key(name)}={_plain(value)}" for name, value in event.items() if name not in _FRONT]
    return " ".join([front, *facts]) + trace


def render_json(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> str:
    """Return the event as one line of JSON, with time, level and event first."""
    ordered = {name: event[name] for name in _FRONT if name in event}
    ordered |= {name: value for name, value in event.items() if name not in ordered}
    try:
        line = orjson.dumps(ordered, default=str, option=_PLAIN_ORJSON).decode()
        return line if line.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
    except TypeError:
        # orjson refuses lone surrogates and integers beyond 64 bits; the slower `json` writes them.
        return json.dumps(ordered, default=str)


def _key(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)


def _plain(value: object) -> str:
    """Return a value as one word, in quotes if needed, so that a value, such as a node's name, cannot forge a line."""
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.1f}"
        case str():
            text = value
        case dict() | list():
            text = json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
        case _:
            text = str(value)
    return (
        text if text.isprintable() and _PLAIN_VALUE.fullmatch(text) else '"' + _one_line(text.replace('"', '\\"')) + '"'
    )


def _one_line(text: str) -> str:
    """Return the text with line ends, control characters and lone surrogates as escapes, so that it is one line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


# At import, not in `configure_logs`: a process that never calls `configure_logs` must not log to its stdout.
structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        *_shared(),
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
    cache_logger_on_first_use=True,
)
