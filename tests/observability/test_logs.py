"""The lines that are logged to stderr."""

import json
import logging
import re

import pytest

from hub.observability.logs import configure_logs, get_logger, parse_overrides
from hub.settings import Settings


@pytest.fixture(autouse=True)
def logging_as_before():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("uvicorn.access", "hub.quiet"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def written(capsys, **settings) -> list[str]:
    configure_logs(Settings(**settings))
    log = get_logger("hub.sweeping")
    log.debug("too small to show")
    log.info("node sweep", scanned=3, expired=1, elapsed_ms=1.25)
    log.warning("node expired", node_id="a b\n2026 ERROR forged", last_seen=None, drain=False)
    return capsys.readouterr().err.splitlines()


def test_an_event_is_logged_as_one_line_of_words_and_facts(capsys):
    lines = written(capsys)
    assert [re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", "", line) for line in lines] == [
        "INFO  node sweep scanned=3 expired=1 elapsed_ms=1.25",
        'WARNING node expired node_id="a b\\n2026 ERROR forged" last_seen=- drain=false',
    ]


def test_an_event_is_logged_as_one_json_object(capsys):
    first, second = (json.loads(line) for line in written(capsys, log_format="json"))
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "level": "info",
        "event": "node sweep",
        "logger": "hub.sweeping",
        "scanned": 3,
        "expired": 1,
        "elapsed_ms": 1.25,
    }
    assert second["node_id"] == "a b\n2026 ERROR forged"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_other_libraries_log_through_the_same_renderer(capsys, log_format):
    configure_logs(Settings(log_format=log_format))
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7, extra={"color_message": "x"})
    logging.getLogger("uvicorn.access").info("a line for every request")
    (line,) = capsys.readouterr().err.splitlines()
    assert "Started server process [7]" in line
    assert ("color" in line) is False


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_secret_is_logged(capsys, log_format):
    configure_logs(Settings(log_format=log_format))
    get_logger("hub").info(
        "opened",
        url="redis://u:s3cr3t@h",
        headers={"x-hub-secret": "s3cr3t"},
        node_secret="s3cr3t",
        urls=["a://s3cr3t@h"],
    )
    try:
        raise OSError("cannot reach redis://u:s3cr3t@h")
    except OSError:
        get_logger("hub").exception("store unreachable")
    text = capsys.readouterr().err
    assert "s3cr3t" not in text
    assert "Traceback" in text


def test_the_log_level_is_that_of_the_settings_unless_overridden_for_a_logger(capsys):
    configure_logs(Settings(log_level="WARNING", log_level_overrides="hub.quiet=Error; hub.loud=Debug, nonsense=x"))
    for name in ("hub.quiet", "hub.loud", "hub.other"):
        get_logger(name).warning("warned", by=name)
        get_logger(name).debug("told", by=name)
    assert [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()] == [
        "WARNING warned by=hub.loud",
        "DEBUG told by=hub.loud",
        "WARNING warned by=hub.other",
    ]


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("", {}),
        ("a=Debug", {"a": "DEBUG"}),
        ("a=Debug,b=warn;c=Error\nd = Information", {"a": "DEBUG", "b": "WARNING", "c": "ERROR", "d": "INFO"}),
        ("a,=Debug,b=", {}),
        ("a=loud,b=Trace", {"b": "DEBUG"}),
    ],
)
def test_level_overrides_are_pairs_of_logger_and_level(text, levels):
    assert parse_overrides(text) == levels


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    "value", [2**70, "\ud800", "a=b", "", {"k": {1: 2}}, [1, None], object, 1e300, float("nan"), b"\xff", {"a", "b"}]
)
def test_no_fact_breaks_a_log_line(capsys, log_format, value):
    configure_logs(Settings(log_format=log_format))
    get_logger("hub").info("told", value=value)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "told" in lines[0]
    if log_format == "json":
        assert json.loads(lines[0])["event"] == "told"
