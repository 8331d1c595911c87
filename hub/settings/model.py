"""Every setting: its variable, bounds, default, and the cost of values that are too low or too high."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hub.settings import recovery
from hub.settings.addresses import is_loopback
from hub.settings.cluster import prefix_for
from hub.settings.jobs import JobsSettings, contradictions
from hub.settings.knobs import (
    MASK,
    YEAR_S,
    BadSetting,
    Knob,
    count,
    mask_url,
    one_of,
    read_caps,
    read_duration,
    read_flag,
    read_integer,
    read_level,
    read_link,
    read_names,
    read_origins,
    read_path,
    read_redis_url,
    read_secret,
    read_text,
)
from hub.settings.oidc import OidcSettings
from hub.settings.quotas import QuotaSettings
from hub.settings.realms import read_served
from hub.settings.sources import environment_name, find_name, own_names, read_environment, unknown_names

_HIDDEN = ("SECRET", "PASSWORD", "TOKEN", "WEBHOOK")  # words in the names of variables whose values are never shown


def _seconds(name: str, low: float = 0, high: float = YEAR_S, *, also: str = "") -> Knob:
    return Knob(name, read_duration, low, high, aliases=(also,) if also else ())


def _from_ms(name: str, low: float = 0) -> Knob:
    return Knob(name, read_integer, low, 86_400_000, scale=0.001)


def _flag(name: str, *, per_environment: bool = False) -> Knob:
    return Knob(name, read_flag, per_environment=per_environment)


def _secret(name: str) -> Knob:
    return Knob(name, read_secret, secret=True)


def _default_data_dir() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "capacity-hub"
    except RuntimeError:  # a user without a home directory
        return Path(".hub").absolute()


class HubSettings(BaseSettings):
    """The settings of nodes, leases, queues, the server and its Redis."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    runner_secret: Annotated[SecretStr | None, _secret("HUB_RUNNER_SECRET")] = None
    """What borrowers send in x-hub-secret; a comma-separated list accepts each member. No default."""
    node_secret: Annotated[SecretStr | None, _secret("HUB_NODE_SECRET")] = None
    """What nodes send in x-hub-secret; a comma-separated list accepts each member. No default."""
    admin_secret: Annotated[SecretStr | None, _secret("HUB_ADMIN_SECRET")] = None
    """What operators send in x-hub-secret. Unset: the runner's secret opens admin calls too."""

    host: Annotated[str, Knob("HUB_HOST", read_text)] = "127.0.0.1"
    """Address to listen on. Anything but loopback needs secrets."""
    port: Annotated[int, count("HUB_PORT", 0, 65_535)] = 8080
    """TCP port to listen on; 0 takes a free one."""
    allowed_hosts: Annotated[tuple[str, ...], Knob("HUB_ALLOWED_HOSTS", read_names)] = ()
    """Names callers may use for this hub, comma-separated. Unset: loopback's while no secret is set, else any."""
    hook_hosts: Annotated[tuple[str, ...], Knob("HUB_HOOK_HOSTS", read_names)] = ()
    """Hosts of hooks that may have private addresses, comma-separated. Too many: hooks reach services inside."""
    allowed_origins: Annotated[tuple[str, ...], Knob("HUB_ALLOWED_ORIGINS", read_origins)] = ()
    """Origins of web pages that may call, comma-separated, such as https://console.example. Unset: the hub's own."""
    workers: Annotated[int, count("HUB_WORKERS", 1, 256)] = 1
    """Server processes. Too few leave cores idle; each further one costs about 80 MB and its own Redis connections."""

    gate_host: Annotated[str, Knob("HUB_GATE_HOST", read_text)] = "127.0.0.1"
    """Address that `hub gate` listens on. Beyond loopback every caller needs a credential, at the hub as well."""
    gate_port: Annotated[int, count("HUB_GATE_PORT", 0, 65_535)] = 4444
    """TCP port of `hub gate`; 0 takes a free one."""
    gate_connections: Annotated[int, count("HUB_GATE_CONNECTIONS", 1, 65_536)] = 1000
    """Callers of one credential at a gate, waiting ones too. Too low: large runs get 503; too high: one takes all."""
    gate_idle_s: Annotated[float, _seconds("HUB_GATE_IDLE_SECONDS", 1)] = 300.0
    """An HTTP tunnel of a gate without requests ends so soon. Too low: slow tests lose it; too high: lost ones stay."""

    tls_cert: Annotated[Path | None, Knob("HUB_TLS_CERT", read_path)] = None
    """A certificate in PEM with those that lead to its authority: https instead of http. Read again on SIGHUP."""
    tls_key: Annotated[Path | None, Knob("HUB_TLS_KEY", read_path)] = None
    """The key of HUB_TLS_CERT, not encrypted. Unset: it is in the same file."""
    tls_client_ca: Annotated[Path | None, Knob("HUB_TLS_CLIENT_CA", read_path)] = None
    """Authorities whose certificates callers may show instead of a secret; HUB_TOKENS_FILE says who is who."""

    redis_url: Annotated[str | None, Knob("HUB_REDIS_URL", read_redis_url, aliases=("REDIS_URL",))] = None
    """redis://, rediss://, unix://, redis+sentinel://h1,h2:p/service/db, redis+cluster://h1,h2:p. Unset: embedded."""
    key_prefix: Annotated[str, Knob("HUB_KEY_PREFIX", read_text)] = ""
    """Put before every key; hubs with different ones do not see each other. Unset: nothing; in a cluster {hub}:."""
    realms_file: Annotated[Path | None, Knob("HUB_REALMS_FILE", read_path)] = None
    """A TOML file of further realms, worlds of their own, and where each lives. Read again on SIGHUP. Unset: none."""
    realms: Annotated[tuple[str, ...], Knob("HUB_REALMS", read_served)] = ()
    """Which realms this hub serves, comma-separated; default is the one without a name. Unset: all of them."""
    data_dir: Annotated[Path, Knob("HUB_DATA_DIR", read_path)] = _default_data_dir()
    """Where the embedded Redis keeps its append-only file. Hubs of one machine with one data_dir share one server."""
    redis_connect_timeout_s: Annotated[float, _from_ms("REDIS_CONNECT_TIMEOUT_MS")] = 5.0
    """Time to connect to Redis; 0: no bound. Too low: refused in a failover; too high: callers wait for their 503."""
    redis_timeout_s: Annotated[float, _from_ms("REDIS_ASYNC_TIMEOUT_MS")] = 5.0
    """Time for one answer of Redis; 0: no bound. Too low: repeats under load; too high: callers wait for their 503."""
    redis_health_timeout_ms: Annotated[int, count("REDIS_HEALTH_TIMEOUT_MS", 100, 86_400_000)] = 1000
    """Time for the ping of /health. Too low: a busy Redis looks dead; too high: the load balancer gives up first."""
    redis_breaker_threshold: Annotated[int, count("REDIS_BREAKER_THRESHOLD", 1)] = 3
    """Failed pings in a row before /health stops asking. Too low: one hiccup opens it; too high: slow answers."""
    redis_breaker_cooldown_ms: Annotated[int, count("REDIS_BREAKER_COOLDOWN_MS", 500, 86_400_000)] = 5000
    """How long /health then answers 503 unasked. Too low: it burdens a recovering Redis; too high: late to notice."""

    node_timeout_s: Annotated[float, _seconds("HUB_NODE_TIMEOUT", 1, also="HUB_NODE_TIMEOUT_SECONDS")] = 60.0
    """Silence after which a node is stale, in seconds. Too low: pauses cost nodes; too high: dead slots stay lent."""
    node_sweep_interval_s: Annotated[float, _seconds("HUB_NODE_SWEEP_INTERVAL_SECONDS", 0.05)] = 20.0
    """Pause between node sweeps. Too low: work for nothing; too high: the dead hold slots for longer."""
    node_sweep_interval_min_s: Annotated[float, _seconds("HUB_NODE_SWEEP_INTERVAL_MIN_SECONDS", 0.05)] = 5.0
    """Least node sweep interval that is accepted. Lower it in tests only."""
    sweeper_expire: Annotated[bool, _flag("HUB_SWEEPER_EXPIRE")] = False
    """Whether stale nodes are removed. false: they are kept for 30 s at a time and nothing dead is ever taken away."""
    sweeper_reconnect_grace_s: Annotated[float, _seconds("HUB_SWEEPER_RECONNECT_GRACE_SECONDS")] = 30.0
    """No expiry for this long after Redis was away. Too low: nodes not yet heard are lost; too high: the dead stay."""
    sweeper_keep_if_available: Annotated[bool, _flag("HUB_SWEEPER_KEEP_IF_AVAILABLE")] = False
    """true keeps a stale node that still has free slots: a node that crashed while idle then stays for ever."""
    sweeper_brake_percent: Annotated[int, count("HUB_SWEEPER_BRAKE_PERCENT", 1, 100)] = 20
    """More stale nodes at once, and only this share goes per interval; 100: any number. Too low: real deaths linger."""
    sweeper_brake_min: Annotated[int, count("HUB_SWEEPER_BRAKE_MIN", 1)] = 3
    """Fewer stale nodes never brake. Too low: one death in a small fleet does; too high: a small fleet has no brake."""

    label_kinds: Annotated[str, Knob("HUB_LABEL_KINDS", read_text)] = "*"
    """Words allowed as second segment of a label, comma-separated; * allows any."""
    borrow_trailing_fallback: Annotated[bool, _flag("HUB_BORROW_TRAILING_FALLBACK", per_environment=True)] = True
    """Whether a:b:c may be served by a:b. false refuses more borrowers, true may give a less specific slot."""
    borrow_prefix_expand: Annotated[bool, _flag("HUB_BORROW_PREFIX_EXPAND", per_environment=True)] = True
    """Whether a:b may be served by a:b:c. false leaves specific slots idle, true may use them up."""
    borrow_wildcards: Annotated[bool, _flag("HUB_BORROW_WILDCARDS", per_environment=True)] = False
    """Whether * in a wanted label matches any segment. true lets a borrower reach every pool."""
    borrow_ttl_s: Annotated[float, _seconds("HUB_BORROW_TTL_SECONDS", 0.05, 86_400)] = 900.0
    """Lease length when the borrower names none. Too low: slots lapse in use; too high: the dead hold them on."""
    borrow_ttl_min_s: Annotated[float, _seconds("HUB_BORROW_TTL_MIN_SECONDS", 0.05, 86_400)] = 60.0
    """Least lease length that is accepted, also of the two settings around it. Lower it in tests only."""
    max_session_ttl_s: Annotated[float, _seconds("HUB_MAX_SESSION_TTL_SECONDS", 0.05)] = 86_400.0
    """Longest life of a lease, renewals included. Too low: long work is cut off; too high: stuck holders stay."""
    idempotency_s: Annotated[float, _seconds("HUB_IDEMPOTENCY_SECONDS", 60, YEAR_S)] = 3600.0
    """How long an Idempotency-Key of borrow or return is remembered, at least for the lease. Each costs 0.2 kB."""
    idle_timeout_s: Annotated[float, _seconds("HUB_IDLE_TIMEOUT_SECONDS")] = 0.0
    """Unused leases end after this; 0: never. Too low: pauses to think lose the slot; too high: it hardly matters."""
    revoke_grace_s: Annotated[float, _seconds("HUB_REVOKE_GRACE_SECONDS", 0, 600)] = 5.0
    """How long a slot waits for a holder whose lease ended early. Too low: it may overlap; too high: idle slots."""
    recycle_timeout_s: Annotated[float, _seconds("HUB_RECYCLE_TIMEOUT_SECONDS", 1, 86_400)] = 120.0
    """When a slot that is not made fresh is named. Too low: slow nodes are named; too high: stuck ones late."""
    grant_replicas: Annotated[int, count("HUB_GRANT_REPLICAS", 0, 5)] = 0
    """Replicas of Redis that have a lease before its borrower does. Too few: a failover loses it; too many: 503s."""
    borrow_ttl_sweep_s: Annotated[float, _seconds("HUB_BORROW_TTL_SWEEP_SECONDS", 0.05)] = 10.0
    """Pause between lease sweeps. Too low: work for nothing; too high: lapsed slots come back later."""
    borrow_ttl_sweep_min_s: Annotated[float, _seconds("HUB_BORROW_TTL_SWEEP_MIN_SECONDS", 0.05)] = 5.0
    """Least lease sweep interval that is accepted. Lower it in tests only."""
    borrow_concurrency_default: Annotated[int, count("HUB_BORROW_CONCURRENCY_DEFAULT")] = 0
    """Live leases per label without a cap of its own; 0: no cap. Too low: free slots stay unused."""
    borrow_concurrency_caps: Annotated[str, Knob("HUB_BORROW_CONCURRENCY_CAPS", read_caps)] = ""
    """Caps per label as LABEL=N, separated by commas. Too low: free slots of that label stay unused."""

    borrow_queue_timeout_s: Annotated[float, _seconds("HUB_BORROW_QUEUE_TIMEOUT_SECONDS", 1)] = 30.0
    """How long a borrow waits in the queue. Too low: callers come back and queue anew; too high: it seems to hang."""
    borrow_queue_max_per_label: Annotated[int, count("HUB_BORROW_QUEUE_MAX_PER_LABEL", 1)] = 100
    """Waiters per label; more are refused. Too low: bursts are turned away; too high: people wait for nothing."""
    borrow_queue_max_per_run: Annotated[int, count("HUB_BORROW_QUEUE_MAX_PER_RUN", 1)] = 5
    """Waiters per run; more are refused. Too low: parallel runs are turned away; too high: one run fills the queue."""
    bundle_patience_s: Annotated[float, _seconds("HUB_BUNDLE_PATIENCE_SECONDS")] = 30.0
    """After so long slots are set aside for the oldest bundle. Too low: they idle; too high: single borrows pass it."""
    bundle_reserve_s: Annotated[float, _seconds("HUB_BUNDLE_RESERVE_SECONDS", 1)] = 900.0
    """For how long at most; then another has its turn. Too low: large bundles never get all; too high: others wait."""

    max_control_body_bytes: Annotated[int, count("HUB_MAX_CONTROL_BODY_BYTES", 8192, 1_048_576)] = 65_536
    """Longest request body. Too low: large registrations get 413; too high: rubbish takes memory."""
    max_log_body_bytes: Annotated[int, count("HUB_MAX_LOG_BODY_BYTES", 8192, 16_777_216)] = 1_048_576
    """Longest body of the log endpoints. Too low: log batches get 413; too high: rubbish takes memory."""
    max_bytes_under_way: Annotated[int, count("HUB_UNDER_WAY_MAX_BYTES", 0, 2**40, also="HUB_MAX_BYTES_UNDER_WAY")] = (
        67_108_864
    )
    """Bytes of large bodies at a time, half of them of one caller. Too low: they wait in turn; too high: memory."""
    request_headers_timeout_s: Annotated[float, _seconds("HUB_REQUEST_HEADERS_TIMEOUT_SECONDS", 5, 120)] = 15.0
    """Time to send the headers. Too low: bad lines are cut off; too high: half requests hold connections."""
    keep_alive_timeout_s: Annotated[float, _seconds("HUB_KEEP_ALIVE_TIMEOUT_SECONDS", 5, 300)] = 30.0
    """How long an idle connection stays. Too low: every beat connects anew; too high: idle connections pile up."""
    connections_per_address: Annotated[int, count("HUB_CONNECTIONS_PER_ADDRESS", 0, 65_536)] = 0
    """Most connections of one address, a proxy's too; 0: three quarters of all. Too low: idle ones are cut."""
    request_timeout_s: Annotated[float, _seconds("HUB_REQUEST_TIMEOUT_SECONDS", 5, 600)] = 60.0
    """Time for a whole request. Too low: waiting borrowers are cut short; too high: lost clients hold their place."""
    node_token_s: Annotated[float, Knob("HUB_NODE_TOKEN_DAYS", read_integer, 1, 3650, scale=86_400)] = 90 * 86_400.0
    """Keeps a token made by joining so long unused. Too low: idle machines join anew; too high: names stay taken."""
    audit_max_entries: Annotated[int, count("HUB_AUDIT_MAX_ENTRIES", 100)] = 5000
    """Entries the audit log keeps. Too low: yesterday is gone; too high: about 300 bytes of Redis memory each."""
    history_max_entries: Annotated[int, count("HUB_HISTORY_MAX_ENTRIES", 100, 1_000_000)] = 20_000
    """Events the history keeps. Too low: `hub why` soon forgets; too high: about 200 bytes of Redis memory each."""
    usage_days: Annotated[int, count("HUB_USAGE_DAYS", 1, 3650)] = 400
    """Days for which figures of usage are kept. Too low: last month is gone; too high: Redis memory for each name."""
    dashboard_url: Annotated[str, Knob("DASHBOARD_URL", read_link)] = ""
    """Where /dashboard redirects to. Unset: to the console of this hub."""
    console: Annotated[Literal["on", "readonly", "off"], Knob("HUB_CONSOLE", one_of("on", "readonly", "off"))] = "on"
    """The page at / for operators: on; readonly: pages change nothing; off: there is none."""

    log_level: Annotated[str, Knob("LOG_LEVEL", read_level)] = "INFO"
    """DEBUG, INFO, WARNING, ERROR or CRITICAL. Too low: noise that costs throughput; too high: no sweep summaries."""
    log_level_overrides: Annotated[str, Knob("LOG_LEVEL_OVERRIDES", read_text)] = ""
    """LOGGER=LEVEL pairs for single loggers, separated by commas, semicolons or newlines."""
    log_format: Annotated[Literal["text", "json"], Knob("HUB_LOG_FORMAT", one_of("text", "json"))] = "text"
    """text for people, json for collectors: one line per event either way."""
    sweep_log: Annotated[Literal["every", "changes"], Knob("HUB_SWEEP_LOG", one_of("every", "changes"))] = "every"
    """every: one summary line per sweep interval; changes: a line when a sweep counted something, else every 10 min."""
    environment: Annotated[str, Knob("HUB_ENVIRONMENT", read_text, aliases=("ASPNETCORE_ENVIRONMENT",))] = "Production"
    """The suffix of per-environment overrides: HUB_BORROW_WILDCARDS_Staging=true counts where this is Staging."""


class Settings(recovery.RecoverySettings, OidcSettings, QuotaSettings, JobsSettings, HubSettings):
    """All settings of a hub. The constructor reads no environment and checks no bounds; `load_settings` does both."""

    realm: str = ""
    """The realm that they are for, empty for the default realm; set by the hub alone."""
    notes: list[str] = []
    """What was not taken as written, one sentence each; the loader of the settings logs them as warnings."""
    env_file: Path | None = None
    """The `.env` file that was read."""
    from_env_file: frozenset[str] = frozenset()
    """The fields that the file decides, and not the environment of the process."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    @property
    def open_access(self) -> bool:
        """Return whether no secret and no issuer is set, so that every caller that can connect may do everything.

        The jobs API is open only while there is no token. False also when other machines can connect and there is a
        file of tokens: then the jobs API requires a token, and calls that need a secret are refused.
        """
        if self.runner_secret or self.node_secret or self.admin_secret or self.oidc_issuer:
            return False
        return self.tokens_file is None or is_loopback(self.host)

    def refuse_open_access_beyond_loopback(self) -> None:
        """Raise `BadSetting` when the hub would serve every caller at an address that other machines can reach."""
        if self.open_access and not is_loopback(self.host):
            raise BadSetting(
                f"Without HUB_RUNNER_SECRET and HUB_NODE_SECRET the hub serves on loopback only; HUB_HOST={self.host} "
                "would let everyone in."
            )

    def refuse_tls_in_part(self) -> None:
        """Raise `BadSetting` when a key or client authorities for TLS are set, and no certificate."""
        for name, value in (("HUB_TLS_KEY", self.tls_key), ("HUB_TLS_CLIENT_CA", self.tls_client_ca)):
            if value is not None and self.tls_cert is None:
                raise BadSetting(f"{name} is set and HUB_TLS_CERT is not: the hub would serve without TLS.")

    @property
    def listens_beyond_loopback(self) -> bool:
        """Return whether other machines can connect."""
        return not is_loopback(self.host)

    def masked(self) -> dict[str, str]:
        """Return variable -> value, in the unit of the variable, with secrets and passwords in URLs as `***`."""
        return {knob.name: _shown(knob, getattr(self, field)) for field, knob in knobs().items()}

    def explained(self) -> list[dict[str, str]]:
        """Return for each setting its variable, value, default, source and purpose; secrets are `***`."""
        now, default = self.masked(), Settings().masked()
        return [
            {
                "name": knob.name, "value": now[knob.name], "default": default[knob.name],
                "source": ".env file" if field in self.from_env_file
                else "default" if now[knob.name] == default[knob.name] else "environment",
                "about": Settings.model_fields[field].description or "",
            }
            for field, knob in knobs().items()
        ]  # fmt: skip

    def changed(self) -> dict[str, str]:
        """Return the settings that differ from their default, as `masked` shows them."""
        defaults = Settings().masked()
        return {name: value for name, value in self.masked().items() if value != defaults[name]}


def load_settings(env: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of the environment, or of a mapping; raises `BadSetting` for a wrong value.

    A number out of bounds becomes the nearest bound, which a sentence in `notes` says.
    """
    variables = read_environment(env)
    environment = environment_name(variables)
    values: dict[str, Any] = {}
    notes: list[str] = [*variables.file.passed_over]
    from_file: set[str] = set()
    for field, knob in knobs().items():
        name = find_name(knob, variables, environment)
        if name is not None:
            values[field], note = knob.value(variables[name])
            notes += [note] if note else []
            from_file |= {field} if variables.is_from_file(name) else set()
    notes += unknown_names(knobs().values(), variables)
    values["key_prefix"] = prefix_for(values.get("redis_url"), values.get("key_prefix", ""))
    _raise_to_minimum(values, notes)
    settings = Settings(**values, notes=notes, env_file=variables.file.path, from_env_file=frozenset(from_file))
    notes += _contradictions(settings)
    return settings.model_copy(update={"notes": notes})


def own_variables(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of the process, or of a mapping, that the hub or its clients read, with secrets masked."""
    variables = os.environ if env is None else env
    return {name: _fit(name, variables[name]) for name in own_names(knobs().values(), variables)}


def _fit(name: str, value: str) -> str:
    return (MASK if value else "") if any(word in name for word in _HIDDEN) else mask_url(value)


@cache
def knobs() -> dict[str, Knob]:
    """Return field of `Settings` -> its `Knob`, in the order of the classes."""
    return {
        field: knob for field, info in Settings.model_fields.items() for knob in info.metadata if isinstance(knob, Knob)
    }


def _default(field: str) -> Any:
    return Settings.model_fields[field].default


def _raise_to_minimum(values: dict[str, Any], notes: list[str]) -> None:
    for field, floor in (
        ("node_sweep_interval_s", "node_sweep_interval_min_s"),
        ("borrow_ttl_sweep_s", "borrow_ttl_sweep_min_s"),
        ("borrow_ttl_s", "borrow_ttl_min_s"),
        ("max_session_ttl_s", "borrow_ttl_min_s"),
    ):
        value, minimum = (values.get(name, _default(name)) for name in (field, floor))
        if value < minimum:
            values[field] = minimum
            names = knobs()
            notes.append(f"{names[field].name}={value:g} is below {names[floor].name}; {minimum:g} is used")


def _contradictions(settings: Settings) -> list[str]:
    """Return a sentence for each pair of settings whose values do not go together."""
    found = []
    if settings.borrow_ttl_s > settings.max_session_ttl_s:
        found.append(
            "HUB_BORROW_TTL_SECONDS is above HUB_MAX_SESSION_TTL_SECONDS; "
            f"no lease lives longer than {settings.max_session_ttl_s:g} s"
        )
    if settings.node_timeout_s <= settings.redis_timeout_s:
        found.append("HUB_NODE_TIMEOUT is not above REDIS_ASYNC_TIMEOUT_MS; one slow answer of Redis can cost a node")
    return found + contradictions(settings) + recovery.contradictions(settings)


def _shown(knob: Knob, value: object) -> str:
    match value:
        case None:
            return ""
        case _ if knob.secret:
            return MASK
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value / knob.scale:.15g}"
        case tuple():
            return (
                ",".join(value)
                if knob.read in (read_names, read_origins, read_served)
                else orjson.dumps(value).decode()
            )
        case _:
            return mask_url(str(value))
