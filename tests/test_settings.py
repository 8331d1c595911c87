"""The environment in, one `Settings` and its notes out."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

import hub
from hub.settings import BadSetting, Settings, load_settings, mask_url, read_environment
from hub.settings.model import knobs


def test_an_empty_environment_gives_the_defaults_and_no_notes():
    assert load_settings({}) == Settings()


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("HUB_NODE_TIMEOUT", "15", "node_timeout_s", 15),
        ("HUB_NODE_TIMEOUT", " 7.5 ", "node_timeout_s", 7.5),
        ("HUB_NODE_TIMEOUT", "", "node_timeout_s", 60),
        ("HUB_NODE_TIMEOUT", "   ", "node_timeout_s", 60),
        ("HUB_PORT", "+8081", "port", 8081),
        ("HUB_SWEEPER_EXPIRE", "TRUE", "sweeper_expire", True),
        ("HUB_BORROW_PREFIX_EXPAND", "False", "borrow_prefix_expand", False),
        ("REDIS_ASYNC_TIMEOUT_MS", "250", "redis_timeout_s", 0.25),
        ("REDIS_CONNECT_TIMEOUT_MS", "0", "redis_connect_timeout_s", 0),
        ("REDIS_URL", "redis:6379", "redis_url", "redis://redis:6379"),
        ("HUB_REDIS_URL", "rediss://u:p@r/1", "redis_url", "rediss://u:p@r/1"),
        ("HUB_REDIS_URL", "unix:///run/r.sock", "redis_url", "unix:///run/r.sock"),
        ("HUB_REDIS_URL", "redis://[::1]:6379", "redis_url", "redis://[::1]:6379"),
        (
            "HUB_REDIS_URL",
            "redis+sentinel://a:1,b:2/main/0",
            "redis_url",
            "redis+sentinel://a:1,b:2/main/0",
        ),
        ("HUB_REDIS_URL", "redis+cluster://a:1,b", "redis_url", "redis+cluster://a:1,b"),
        ("HUB_REDIS_URL", "redis+cluster://a:1,b", "key_prefix", "{hub}:"),
        ("LOG_LEVEL", "Information", "log_level", "INFO"),
        ("LOG_LEVEL", "warning", "log_level", "WARNING"),
        ("HUB_LOG_FORMAT", "JSON", "log_format", "json"),
        ("ASPNETCORE_ENVIRONMENT", "Staging", "environment", "Staging"),
        ("HUB_DATA_DIR", "/srv/hub", "data_dir", Path("/srv/hub")),
        ("HUB_BORROW_CONCURRENCY_CAPS", "a:b=3", "borrow_concurrency_caps", "a:b=3"),
        ("HUB_ALLOWED_CATEGORIES", '["one", "zwei:2"]', "allowed_categories", ("one", "zwei:2")),
        ("HUB_ALLOWED_CATEGORIES", "[]", "allowed_categories", ()),
        ("HUB_ALLOWED_CATEGORIES", "*", "allowed_categories", ("*",)),
        ("HUB_BORROW_CONCURRENCY_CAPS", " , a:b = +2 ,,", "borrow_concurrency_caps", ", a:b = +2 ,,"),
        ("HUB_ALLOWED_PROVIDER_CATEGORIES", '["files"]', "allowed_provider_categories", ("files",)),
        ("HUB_ALLOWED_PROVIDER_CATEGORIES", "null", "allowed_provider_categories", None),
        ("HUB_ANONYMOUS_READS", "TRUE", "anonymous_reads", True),
        ("HUB_ANONYMOUS_READS", "off", "anonymous_reads", False),
        ("HUB_TOKENS_FILE", "/etc/hub/tokens.toml", "tokens_file", Path("/etc/hub/tokens.toml")),
        ("HUB_TASK_RETENTION_SECONDS", "0", "task_retention_s", 0),
        ("HUB_TERMINAL_TASK_RETENTION_SECONDS", "63072000", "task_retention_s", 63_072_000),
        ("ZNDRAW_JOBLIB_TERMINAL_TASK_RETENTION_SECONDS", "5", "task_retention_s", 5),
        ("ZNDRAW_JOBLIB_ALLOWED_CATEGORIES", '["x"]', "allowed_categories", ("x",)),
        ("ZNDRAW_JOBLIB_ALLOWED_PROVIDER_CATEGORIES", '["x"]', "allowed_provider_categories", ("x",)),
        ("ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECONDS", "1", "worker_timeout_s", 1),
        ("ZNDRAW_JOBLIB_SWEEPER_INTERVAL_SECONDS", "1", "worker_sweep_interval_s", 1),
        ("ZNDRAW_JOBLIB_LONG_POLL_MAX_WAIT_SECONDS", "1", "long_poll_max_wait_s", 1),
        ("ZNDRAW_JOBLIB_INTERNAL_TASK_TIMEOUT_SECONDS", "1", "internal_task_timeout_s", 1),
        ("ZNDRAW_JOBLIB_PROVIDER_RESULT_TTL_SECONDS", "1", "provider_result_ttl_s", 1),
        ("ZNDRAW_JOBLIB_PROVIDER_INFLIGHT_TTL_SECONDS", "1", "provider_inflight_ttl_s", 1),
        ("ZNDRAW_JOBLIB_PROVIDER_LONG_POLL_DEFAULT_SECONDS", "1", "provider_long_poll_default_s", 1),
        ("ZNDRAW_JOBLIB_PROVIDER_LONG_POLL_MAX_SECONDS", "9", "provider_long_poll_max_s", 9),
        ("ZNDRAW_JOBLIB_SIO_DISCONNECT_GRACE_SECONDS", "0.5", "sio_disconnect_grace_s", 0.5),
        ("ZNDRAW_JOBLIB_PROVIDER_RESULT_MAX_BYTES", "2048", "provider_result_max_bytes", 2048),
        ("HUB_RECOVERY_FILE", "/etc/hub/recovery.toml", "recovery_file", Path("/etc/hub/recovery.toml")),
        ("HUB_RECOVERY_SOURCES", "shop.recovery:late", "recovery_sources", "shop.recovery:late"),
        ("HUB_ZOMBIE_CLEANUP_ENABLED", "False", "zombie_cleanup_enabled", False),
        ("HUB_ZOMBIE_CLEANUP_INTERVAL_MINUTES", "0.05", "zombie_cleanup_interval_minutes", 0.05),
        ("HUB_ZOMBIE_STUCK_THRESHOLD_MINUTES", "90.5", "zombie_stuck_threshold_minutes", 90.5),
        ("HUB_ZOMBIE_WEBHOOK_URL", "https://h/x?token=t", "zombie_webhook_url", SecretStr("https://h/x?token=t")),
        ("ZOMBIE_CLEANUP_ENABLED", "false", "zombie_cleanup_enabled", False),
        ("ZOMBIE_CLEANUP_INTERVAL_MINUTES", "1.5", "zombie_cleanup_interval_minutes", 1.5),
        ("ZOMBIE_STUCK_THRESHOLD_MINUTES", "0.5", "zombie_stuck_threshold_minutes", 0.5),
        ("ZOMBIE_WARNING_ABOVE", "0", "zombie_warning_above", 0),
        ("ZOMBIE_CRITICAL_ABOVE", "11", "zombie_critical_above", 11),
        ("ZOMBIE_GROWTH_FACTOR", "1.5", "zombie_growth_factor", 1.5),
        ("ZOMBIE_GROWTH_WINDOW_MINUTES", "30", "zombie_growth_window_minutes", 30),
        ("ZOMBIE_GROWTH_MIN", "2", "zombie_growth_min", 2),
    ],
)
def test_a_setting_is_read_as_written(name, text, field, value):
    short = {"HUB_SWEEPER_INTERVAL_SECONDS": "0.5"} if field == "worker_timeout_s" else {}
    settings = load_settings({name: text, **short})
    assert (getattr(settings, field), settings.notes) == (value, [])


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("HUB_PORT", "8_080", "a whole number from 0 to 65535"),
        ("HUB_PORT", "80.5", "a whole number from 0 to 65535"),
        ("HUB_PORT", "٨٠", "a whole number from 0 to 65535"),
        ("HUB_AUDIT_MAX_ENTRIES", "9" * 40, "a whole number from 100 to 2147483648"),
        *(("HUB_NODE_TIMEOUT", text, "a number from 1 to") for text in ("abc", "a minute", "1e3", "nan", "inf")),
        *(("HUB_SWEEPER_EXPIRE", text, "neither true nor false") for text in ("1", "yes")),
        ("HUB_BORROW_TRAILING_FALLBACK", "0", "neither true nor false"),
        ("LOG_LEVEL", "loud", "DEBUG, INFO, WARNING, ERROR and CRITICAL"),
        ("HUB_LOG_FORMAT", "xml", "text, json"),
        *(
            ("HUB_ALLOWED_CATEGORIES", text, 'JSON list of texts, such as ["one","two"]')
            for text in ("modifiers,selections", '"modifiers"', "null", "[1]", '[""]', "[[]]", "{}", "[" * 100_000)
        ),
        ("HUB_ALLOWED_PROVIDER_CATEGORIES", "files", "nor *, which allows all"),
        ("HUB_WORKER_TIMEOUT_SECONDS", "soon", "a number from 1 to"),
        ("HUB_ZOMBIE_STUCK_THRESHOLD_MINUTES", "1h", "a number from"),
        ("HUB_ZOMBIE_CLEANUP_INTERVAL_MINUTES", "often", "a number from"),
        ("HUB_ZOMBIE_WARNING_ABOVE", "2.5", "a whole number from 0 to"),
        *(
            ("HUB_BORROW_CONCURRENCY_CAPS", text, "LABEL=N, separated by commas, with N from 1 to 999999999")
            for text in ("abc", "a:b=abc", "a:b=1,c:d", "a:b=0", "a:b=-3", "=3", "a=4=5", "a=1_0", "a:b=٣", "a:b=1.0")
        ),
    ],
)  # fmt: skip
def test_an_unreadable_setting_stops_the_start_with_one_sentence(name, text, allowed):
    with pytest.raises(BadSetting) as error:
        load_settings({name: text})
    said = str(error.value)
    assert said.startswith(f"{name}={text[:80]!r} ")
    assert allowed in said
    assert said.endswith(".")
    assert "\n" not in said


def test_a_service_variable_of_kubernetes_is_not_read_as_the_port():
    assert load_settings({"HUB_PORT": "tcp://10.0.0.1:8080"}).port == 8080


@pytest.mark.parametrize(
    ("variables", "field", "value"),
    [
        ({"HUB_NODE_TIMEOUT": "0", "REDIS_ASYNC_TIMEOUT_MS": "500"}, "node_timeout_s", 1),
        ({"HUB_NODE_TIMEOUT": "-5", "REDIS_ASYNC_TIMEOUT_MS": "500"}, "node_timeout_s", 1),
        ({"HUB_NODE_SWEEP_INTERVAL_SECONDS": "1"}, "node_sweep_interval_s", 5),
        ({"HUB_BORROW_TTL_SWEEP_SECONDS": "1"}, "borrow_ttl_sweep_s", 5),
        ({"HUB_BORROW_TTL_SECONDS": "5"}, "borrow_ttl_s", 60),
        ({"HUB_BORROW_TTL_SECONDS": "86401"}, "borrow_ttl_s", 86_400),
        ({"HUB_BORROW_CONCURRENCY_DEFAULT": "-1"}, "borrow_concurrency_default", 0),
        ({"HUB_MAX_CONTROL_BODY_BYTES": "1"}, "max_control_body_bytes", 8192),
        ({"HUB_MAX_CONTROL_BODY_BYTES": "99999999"}, "max_control_body_bytes", 1_048_576),
        ({"HUB_MAX_LOG_BODY_BYTES": "99999999"}, "max_log_body_bytes", 16_777_216),
        ({"HUB_REQUEST_HEADERS_TIMEOUT_SECONDS": "1"}, "request_headers_timeout_s", 5),
        ({"HUB_REQUEST_HEADERS_TIMEOUT_SECONDS": "121"}, "request_headers_timeout_s", 120),
        ({"HUB_KEEP_ALIVE_TIMEOUT_SECONDS": "301"}, "keep_alive_timeout_s", 300),
        ({"HUB_REQUEST_TIMEOUT_SECONDS": "601"}, "request_timeout_s", 600),
        ({"HUB_AUDIT_MAX_ENTRIES": "1"}, "audit_max_entries", 100),
        ({"REDIS_HEALTH_TIMEOUT_MS": "1"}, "redis_health_timeout_ms", 100),
        ({"REDIS_BREAKER_THRESHOLD": "0"}, "redis_breaker_threshold", 1),
        ({"REDIS_BREAKER_COOLDOWN_MS": "1"}, "redis_breaker_cooldown_ms", 500),
        ({"REDIS_ASYNC_TIMEOUT_MS": "-1"}, "redis_timeout_s", 0),
        ({"HUB_PORT": "70000"}, "port", 65_535),
        ({"HUB_WORKERS": "0"}, "workers", 1),
        ({"HUB_WORKER_TIMEOUT_SECONDS": "0", "HUB_SWEEPER_INTERVAL_SECONDS": "0.5"}, "worker_timeout_s", 1),
        ({"HUB_SWEEPER_INTERVAL_SECONDS": "0"}, "worker_sweep_interval_s", 0.05),
        ({"HUB_TASK_RETENTION_SECONDS": "-1"}, "task_retention_s", 0),
        ({"HUB_LONG_POLL_MAX_WAIT_SECONDS": "3601"}, "long_poll_max_wait_s", 3600),
        ({"HUB_TASK_PAYLOAD_MAX_BYTES": "1"}, "task_payload_max_bytes", 1024),
        ({"HUB_TASK_PAYLOAD_MAX_BYTES": "999999999"}, "task_payload_max_bytes", 67_108_864),
        ({"HUB_PROVIDER_RESULT_MAX_BYTES": "999999999"}, "provider_result_max_bytes", 268_435_456),
        ({"HUB_ZOMBIE_CLEANUP_INTERVAL_MINUTES": "0.0001"}, "zombie_cleanup_interval_minutes", 0.001),
        ({"HUB_ZOMBIE_STUCK_THRESHOLD_MINUTES": "0.0001"}, "zombie_stuck_threshold_minutes", 0.001),
        ({"ZOMBIE_STUCK_THRESHOLD_MINUTES": "999999"}, "zombie_stuck_threshold_minutes", 527_040),
        ({"HUB_ZOMBIE_GROWTH_FACTOR": "0.5"}, "zombie_growth_factor", 1),
        ({"HUB_ZOMBIE_GROWTH_MIN": "0"}, "zombie_growth_min", 1),
        ({"HUB_ZOMBIE_WARNING_ABOVE": "-1"}, "zombie_warning_above", 0),
    ],
)
def test_a_number_out_of_bounds_becomes_the_bound_and_a_note(variables, field, value):
    settings = load_settings(variables)
    assert getattr(settings, field) == value
    assert type(getattr(settings, field)) is type(getattr(Settings(), field))
    assert len(settings.notes) == 1


def test_the_lower_bounds_of_lengths_are_settings():
    settings = load_settings(
        {
            "HUB_BORROW_TTL_SECONDS": "0.5",
            "HUB_BORROW_TTL_MIN_SECONDS": "0.5",
            "HUB_NODE_SWEEP_INTERVAL_SECONDS": "0.2",
            "HUB_NODE_SWEEP_INTERVAL_MIN_SECONDS": "0.1",
            "HUB_BORROW_TTL_SWEEP_SECONDS": "0.2",
            "HUB_BORROW_TTL_SWEEP_MIN_SECONDS": "0.1",
        }
    )
    assert (settings.borrow_ttl_s, settings.node_sweep_interval_s, settings.borrow_ttl_sweep_s) == (0.5, 0.2, 0.2)
    assert settings.notes == []


@pytest.mark.parametrize(
    ("variables", "wildcards"),
    [
        ({"HUB_BORROW_WILDCARDS_Production": "true"}, True),
        ({"HUB_BORROW_WILDCARDS_PRODUCTION": "true"}, True),
        ({"HUB_BORROW_WILDCARDS_production": "true"}, True),
        ({"HUB_BORROW_WILDCARDS": "true", "HUB_BORROW_WILDCARDS_Production": "false"}, False),
        ({"HUB_BORROW_WILDCARDS": "true", "HUB_BORROW_WILDCARDS_Production": " "}, True),
        ({"HUB_BORROW_WILDCARDS_Staging": "true"}, False),
        ({"HUB_BORROW_WILDCARDS_Staging": "true", "HUB_ENVIRONMENT": "staging"}, True),
        ({"HUB_BORROW_WILDCARDS_Staging": "true", "ASPNETCORE_ENVIRONMENT": "Staging"}, True),
        ({"HUB_BORROW_WILDCARDS_Staging": "true", "HUB_ENVIRONMENT": "A", "ASPNETCORE_ENVIRONMENT": "Staging"}, False),
        ({"HUB_BORROW_WILDCARDS_Production": "false", "HUB_BORROW_WILDCARDS_PRODUCTION": "true"}, False),
    ],
)
def test_the_matching_flags_can_be_overridden_for_one_environment(variables, wildcards):
    settings = load_settings(variables)
    assert (settings.borrow_wildcards, settings.notes) == (wildcards, [])


def test_only_the_matching_flags_can_be_overridden_for_one_environment():
    settings = load_settings({"HUB_SWEEPER_EXPIRE_Production": "true"})
    assert settings.sweeper_expire is False
    assert any("HUB_SWEEPER_EXPIRE_Production" in note for note in settings.notes)


UNITS = re.compile(r"_(SECONDS|MS|MINUTES|DAYS|BYTES)$")
OF_THE_ORIGINAL = {"HUB_NODE_TIMEOUT"}  # its name of a duration, which is known by another one as well
COUNTS = {
    "HUB_PORT", "HUB_WORKERS", "REDIS_BREAKER_THRESHOLD", "HUB_SWEEPER_BRAKE_PERCENT", "HUB_SWEEPER_BRAKE_MIN",
    "HUB_GRANT_REPLICAS", "HUB_BORROW_CONCURRENCY_DEFAULT", "HUB_BORROW_QUEUE_MAX_PER_LABEL",
    "HUB_BORROW_QUEUE_MAX_PER_RUN", "HUB_CONNECTIONS_PER_ADDRESS", "HUB_AUDIT_MAX_ENTRIES", "HUB_HISTORY_MAX_ENTRIES",
    "HUB_ZOMBIE_WARNING_ABOVE", "HUB_ZOMBIE_CRITICAL_ABOVE", "HUB_ZOMBIE_GROWTH_FACTOR", "HUB_ZOMBIE_GROWTH_MIN",
    "HUB_STORE_RESERVE_PERCENT", "HUB_USER_SCHEDULES_MAX", "HUB_USER_PROVIDERS_MAX", "HUB_USER_ROOMS_MAX",
    "HUB_USER_KEYS_MAX", "HUB_USER_READS_MAX", "HUB_CLASSES_MAX", "HUB_GATE_PORT", "HUB_GATE_CONNECTIONS",
}  # fmt: skip


def test_every_setting_with_a_unit_names_it_at_its_end():
    numbers = {knob.name: knob for knob in knobs().values() if knob.minimum is not None}
    assert len(numbers) > 40
    without = {name for name in numbers if not UNITS.search(name)}
    assert without == COUNTS | OF_THE_ORIGINAL
    for name in OF_THE_ORIGINAL:
        assert any(UNITS.search(alias) for alias in numbers[name].aliases)


@pytest.mark.parametrize(
    ("old", "new", "field", "value"),
    [
        ("HUB_NODE_TIMEOUT", "HUB_NODE_TIMEOUT_SECONDS", "node_timeout_s", 90),
        ("HUB_MAX_BYTES_UNDER_WAY", "HUB_UNDER_WAY_MAX_BYTES", "max_bytes_under_way", 1024),
    ],
)
def test_a_name_without_its_unit_and_one_with_it_are_the_same_setting(old, new, field, value):
    for name in (old, new):
        settings = load_settings({name: str(value)})
        assert getattr(settings, field) == value
        assert [note for note in settings.notes if name in note and "no setting" in note] == []


def test_every_setting_has_an_effect():
    """Every declared setting is read outside of the settings, or by a rule that checks them."""
    files = [path for path in Path(hub.__file__).parent.rglob("*.py") if path.name != "model.py"]
    read = "\n".join(path.read_text() for path in files)
    model = (Path(hub.__file__).parent / "settings" / "model.py").read_text()
    for field in knobs():
        used = len(re.findall(rf"\b{field}\b(?!: )", read)) + len(re.findall(rf"[\"'.]{field}\b(?!: )", model))
        assert used, f"{field} is declared, and nothing reads it"


def test_the_name_of_a_setting_wins_over_its_alias():
    assert load_settings({"REDIS_URL": "a:1", "HUB_REDIS_URL": "b:2"}).redis_url == "redis://b:2"
    both = {"ZNDRAW_JOBLIB_ANONYMOUS_READS": "true", "HUB_ANONYMOUS_READS": "false"}
    assert load_settings(both).anonymous_reads is False
    both = {"ZOMBIE_STUCK_THRESHOLD_MINUTES": "5", "HUB_ZOMBIE_STUCK_THRESHOLD_MINUTES": "7"}
    assert load_settings(both).zombie_stuck_threshold_minutes == 7


@pytest.mark.parametrize("url", ["http://x", "redis://", "redis://h:port", "unix://", "redis+ring://a:1"])
def test_an_address_the_hub_cannot_use_stops_the_start(url):
    with pytest.raises(BadSetting, match="HUB_REDIS_URL"):
        load_settings({"HUB_REDIS_URL": url})


@pytest.mark.parametrize(
    "url", ["redis://u:s3 cret@h", "redis:/u:s3cret@h", "u:s3 cret@h:1", "rediss:/h", "redis://u:s3\ncret@h"]
)
def test_an_address_with_a_space_or_a_slash_too_few_stops_the_start_and_is_not_shown(url):
    with pytest.raises(BadSetting, match=r"^HUB_REDIS_URL has (a space|one slash)") as error:
        load_settings({"HUB_REDIS_URL": url})
    assert "cret" not in str(error.value)


@pytest.mark.parametrize("text", ["0", "-1", "0.0", "+0"])
@pytest.mark.parametrize("name", ["ZOMBIE_STUCK_THRESHOLD_MINUTES", "ZOMBIE_CLEANUP_INTERVAL_MINUTES"])
@pytest.mark.parametrize("prefix", ["HUB_", ""])
def test_a_threshold_or_an_interval_of_zero_stops_the_start(prefix, name, text):
    with pytest.raises(BadSetting, match=rf"HUB_{name}={re.escape(text)} .* above 0\.$"):
        load_settings({f"{prefix}{name}": text})


@pytest.mark.parametrize("text", ["false", "0", "No", "OFF", "true", "1", "Yes", "on"])
def test_recovery_is_switched_in_any_of_the_usual_words(text):
    wanted = text.lower() in ("true", "1", "yes", "on")
    assert load_settings({"HUB_ZOMBIE_CLEANUP_ENABLED": text}).zombie_cleanup_enabled is wanted


def test_an_unreadable_switch_of_recovery_stops_the_start():
    with pytest.raises(BadSetting, match="HUB_ZOMBIE_CLEANUP_ENABLED=nope is neither true nor false"):
        load_settings({"HUB_ZOMBIE_CLEANUP_ENABLED": "nope"})


def test_a_warning_threshold_above_the_critical_one_leaves_a_note():
    (note,) = load_settings({"HUB_ZOMBIE_WARNING_ABOVE": "50"}).notes
    assert note.startswith("HUB_ZOMBIE_WARNING_ABOVE is not below HUB_ZOMBIE_CRITICAL_ABOVE")
    assert load_settings({"HUB_ZOMBIE_WARNING_ABOVE": "49"}).notes == []


def test_unknown_variables_without_the_prefix_of_the_hub_leave_no_note():
    assert load_settings({"ZOMBIE_OUTBREAK": "1", "ZOMBIE_CLEANUP": "1"}).notes == []
    (note,) = load_settings({"HUB_ZOMBIE_CLEANUP_INTERVAL": "1"}).notes
    assert note.endswith("did you mean HUB_ZOMBIE_CLEANUP_INTERVAL_MINUTES?")


def test_an_unknown_name_leaves_a_note_with_the_nearest_one():
    settings = load_settings(
        {"HUB_NODE_TIMOUT": "9", "HUB_SERVICE_HOST": "10.0.0.1", "HUB_URL": "http://h", "HUB_TOKEN": "t"}
    )
    assert settings.notes == ["HUB_NODE_TIMOUT is no setting of this hub; did you mean HUB_NODE_TIMEOUT?"]
    (note,) = load_settings({"ZNDRAW_JOBLIB_WORKER_TIMEOUT": "9"}).notes
    assert note.endswith("did you mean ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECONDS?")


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({"HUB_BORROW_TTL_SECONDS": "900", "HUB_MAX_SESSION_TTL_SECONDS": "300"}, "HUB_MAX_SESSION_TTL_SECONDS"),
        ({"HUB_NODE_TIMEOUT": "3"}, "REDIS_ASYNC_TIMEOUT_MS"),
        ({"HUB_WORKER_TIMEOUT_SECONDS": "30"}, "HUB_SWEEPER_INTERVAL_SECONDS"),
        ({"HUB_PROVIDER_LONG_POLL_MAX_SECONDS": "4"}, "HUB_PROVIDER_LONG_POLL_DEFAULT_SECONDS"),
    ],
)
def test_settings_that_do_not_fit_together_leave_a_note(variables, word):
    notes = load_settings(variables).notes
    assert len(notes) == 1
    assert word in notes[0]


def test_the_nearest_dotenv_is_read_and_never_overrides_what_is_set(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text("HUB_PORT=9\nHUB_HOST=from-file\nHUB_NODE_SECRET='a$b'\n# comment\nBROKEN\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.delenv("DISABLE_DOTENV", raising=False)
    monkeypatch.delenv("HUB_PORT", raising=False)
    monkeypatch.setenv("HUB_HOST", "127.0.0.2")
    settings = load_settings()
    assert (settings.port, settings.host) == (9, "127.0.0.2")
    assert settings.node_secret is not None
    assert settings.node_secret.get_secret_value() == "a$b"
    assert "HUB_PORT" not in os.environ
    monkeypatch.setenv("DISABLE_DOTENV", "1")
    assert load_settings().port == 8080


def test_an_unreadable_dotenv_is_ignored(tmp_path):
    (tmp_path / ".env").write_bytes(b"HUB_PORT=\xff\xfe")
    assert read_environment({"A": "b"}, tmp_path) == {"A": "b"}


def test_settings_loaded_from_a_mapping_ignore_the_environment(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text("HUB_PORT=9\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUB_PORT", "10")
    assert load_settings({}).port == 8080


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+cluster://a:1,b:2/1", "names a database, and a cluster has none but 0"),
        ("redis+cluster://a:1,b:x", "names no servers as HOST:PORT, separated by commas"),
        ("redis+cluster://a:1,,b", "names no servers as HOST:PORT, separated by commas"),
        ("redis+cluster://a:1?ssl_certfile=c", "it begins with rediss+cluster://"),
        ("rediss+cluster://u:secret@a:1?db=2", "has an option that is none of ssl_ca_certs"),
    ],
)
def test_an_impossible_url_of_a_cluster_is_refused(url, why):
    with pytest.raises(BadSetting, match=re.escape(why)) as refused:
        load_settings({"HUB_REDIS_URL": url})
    assert "secret" not in str(refused.value)


def test_a_configured_prefix_is_kept_in_a_cluster():
    assert load_settings({"HUB_REDIS_URL": "redis+cluster://a", "HUB_KEY_PREFIX": "{eu}:"}).key_prefix == "{eu}:"


def test_settings_are_shown_without_secrets():
    settings = load_settings(
        {
            "HUB_RUNNER_SECRET": "s3cr3t",
            "HUB_NODE_SECRET": "s3cr3t",
            "HUB_REDIS_URL": "redis://user:s3cr3t@r:6379/0",
            "DASHBOARD_URL": "http://s3cr3t@d/",
            "HUB_ZOMBIE_WEBHOOK_URL": "https://hooks/s3cr3t",
        }
    )
    shown = settings.masked()
    assert "s3cr3t" not in str(shown) + repr(settings.runner_secret)
    assert shown["HUB_RUNNER_SECRET"] == "***"
    assert shown["HUB_ADMIN_SECRET"] == ""
    assert shown["HUB_REDIS_URL"] == "redis://user:***@r:6379/0"


def test_shown_settings_can_be_read_again():
    variables = {
        "HUB_NODE_TIMEOUT": "1.5", "REDIS_ASYNC_TIMEOUT_MS": "333", "HUB_SWEEPER_EXPIRE": "true",
        "HUB_ALLOWED_CATEGORIES": '["ä"]', "HUB_ALLOWED_PROVIDER_CATEGORIES": "[]", "HUB_ANONYMOUS_READS": "no",
    }  # fmt: skip
    settings = load_settings(variables)
    assert load_settings(settings.masked()) == settings


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://:pw@h", "redis://:***@h"),
        ("redis://user@h", "redis://***@h"),
        ("redis://u:p@ss/w@h/0", "redis://u:***@h/0"),
        ("redis+sentinel://u:pw@a:1,b:2/s/0", "redis+sentinel://u:***@a:1,b:2/s/0"),
        ("rediss://h?password=pw&db=1", "rediss://h?password=***&db=1"),
        ("cannot reach redis://u:pw@h now", "cannot reach redis://u:***@h now"),
        ("no address at all", "no address at all"),
        ("redis://u:hun ter2@h:1/0", "redis://u:***@h:1/0"),
        ("redis://:hun\tte r2@h", "redis://:***@h"),
        ("redis://u:p@ss word@h refuses", "redis://u:***@h refuses"),
        ("redis://u:12 34@h", "redis://u:***@h"),
        ("redis:/u:pw@h:1", "redis:/u:***@h:1"),
        ("redis:/u:p w@h:1 is none", "redis:/u:***@h:1 is none"),
        ("redis:///u:pw@h", "redis:///u:***@h"),
        ("://u:pw@h", "://u:***@h"),
        ("redis://u:p://w@h", "redis://u:***@h"),
        ("from redis://a:1 to redis://u:p w@b:2, at last", "from redis://a:1 to redis://u:***@b:2, at last"),
        ("http://h:1/x refuses @global:m:A", "http://h:1/x refuses @global:m:A"),
        ("http://h:1/x is away\nme@there", "http://h:1/x is away\nme@there"),
        ("http://h/x of me@there", "http://h/x of me@there"),
        ("redis://u:a@b redis://u:c@d", "redis://u:***@b redis://u:***@d"),
        ("a :/ b", "a :/ b"),
    ],
)
def test_credentials_in_addresses_are_masked(text, shown):
    assert mask_url(text) == shown


@pytest.mark.parametrize(
    ("variables", "refused"),
    [
        ({}, False),
        ({"HUB_HOST": "localhost"}, False),
        ({"HUB_HOST": "::1"}, False),
        ({"HUB_HOST": "127.9.9.9"}, False),
        ({"HUB_HOST": "0.0.0.0"}, True),
        ({"HUB_HOST": "::"}, True),
        ({"HUB_HOST": "hub.example"}, True),
        ({"HUB_HOST": "0.0.0.0", "HUB_RUNNER_SECRET": "a", "HUB_NODE_SECRET": "b"}, False),
        ({"HUB_HOST": "0.0.0.0", "HUB_TOKENS_FILE": "/t.toml"}, False),
        ({"HUB_HOST": "0.0.0.0", "HUB_TOKENS_FILE": " "}, True),
    ],
)
def test_without_secrets_only_loopback_is_served(variables, refused):
    settings = load_settings(variables)
    if not refused:
        settings.refuse_open_access_beyond_loopback()
        return
    with pytest.raises(BadSetting, match="loopback"):
        settings.refuse_open_access_beyond_loopback()


@pytest.mark.parametrize(
    ("variables", "opens"),
    [
        ({}, True),
        ({"HUB_TOKENS_FILE": "/t.toml"}, True),
        ({"HUB_TOKENS_FILE": "/t.toml", "HUB_HOST": "0.0.0.0"}, False),
        ({"HUB_NODE_SECRET": "b"}, False),
    ],
)
def test_a_tokens_file_closes_roles_without_a_secret_beyond_loopback(variables, opens):
    assert load_settings(variables).open_access is opens


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(sorted(Settings().masked())), st.text(max_size=30)))
def test_every_text_of_a_setting_is_accepted_or_refused_in_a_sentence(variables):
    try:
        load_settings(variables)
    except BadSetting as error:
        said = str(error)
        assert "\n" not in said
        assert any(name.removeprefix("HUB_") in said for name in variables)
