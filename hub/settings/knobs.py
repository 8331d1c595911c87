"""The reading of one setting from text, without environment or files."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

import orjson

from hub.errors import StartRefused
from hub.settings import cluster, sentinel

MASK: Final = "***"
YEAR_S: Final = 366 * 86_400.0

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?([0-9]{1,18}(\.[0-9]{0,9})?|\.[0-9]{1,9})")
_URL_SCHEMES = ("redis", "rediss", "unix", *sentinel.SCHEMES, *cluster.SCHEMES)
_SLASHES = re.compile(r":/+")  # a URL with one slash is a typing error, but may still have a password
_NAME = re.compile(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]")
_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_CAP = re.compile(r"[^=]*[^=\s][^=]*=\s*\+?0*[1-9][0-9]{0,8}\s*")
_SPACE = re.compile(r"\s")
_NEXT_URL = re.compile(r"\n|\s[A-Za-z][A-Za-z0-9+.-]*://")
_SEPARATORS = ",;"
_SECRET_PARAMETER = re.compile(r"secret|pass?w|token", re.IGNORECASE)


class BadSetting(StartRefused):
    """The refusal of a setting with which the hub cannot start; its detail is one sentence for the operator."""


@dataclass(frozen=True, slots=True)
class Knob:
    """The variable of a setting, the reader of its text, and bounds, which are in the unit of the variable.

    `scale` converts that unit to the unit of the setting. `aliases` are other names of the variable. `per_environment`
    allows an override for one environment; `secret` hides the value.
    """

    name: str
    read: Callable[[str], object]
    minimum: float | None = None
    maximum: float | None = None
    scale: float = 1
    aliases: tuple[str, ...] = ()
    per_environment: bool = False
    secret: bool = False

    def value(self, text: str) -> tuple[object, str | None]:
        """Return the value of a text, and a note when it was moved to a bound, else None; raises `BadSetting`."""
        try:
            value = self.read(text.strip())
        except ValueError as reason:
            shown = MASK if self.secret else repr(text[:80])
            raise BadSetting(f"{self.name}={shown} {reason}{self.bounds()}.") from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value, None
        clamped = clamp(value, self.minimum, self.maximum)
        note = None
        if clamped != value:
            limit = "minimum" if clamped > value else "maximum"
            note = f"{self.name}={text.strip()} is beyond its {limit}; {clamped:g} is used"
        return (clamped * self.scale if self.scale != 1 else clamped), note

    def bounds(self) -> str:
        """Return words on the allowed numbers for the end of a refusal; empty without bounds."""
        if self.minimum is None and self.maximum is None:
            return ""
        low, high = ("any" if each is None else f"{each:.15g}" for each in (self.minimum, self.maximum))
        return f": it is a {'whole number' if self.read is read_integer else 'number'} from {low} to {high}"


def count(name: str, low: int = 0, high: int = 2**31, *, also: str = "") -> Knob:
    """Return the knob of a whole number within bounds; `also` is another name of its variable."""
    return Knob(name, read_integer, low, high, aliases=(also,) if also else ())


def clamp(value: float, minimum: float | None, maximum: float | None) -> float:
    """Return the value, moved up to the minimum or down to the maximum, in its own type."""
    kind = type(value)
    if minimum is not None and value < minimum:
        return kind(minimum)
    if maximum is not None and value > maximum:
        return kind(maximum)
    return value


def read_integer(text: str) -> int:
    """Return the integer of a text of decimal digits; raises ValueError for any other text."""
    if not _INTEGER.fullmatch(text):
        raise ValueError("cannot be read")
    return int(text)


def read_duration(text: str) -> float:
    """Return the number of a duration, whole or with a fraction; raises ValueError for exponents and infinity."""
    if not _DECIMAL.fullmatch(text) or not math.isfinite(float(text)):
        raise ValueError("cannot be read")
    return float(text)


def read_flag(text: str) -> bool:
    """Return the flag of `true` or `false`, in upper or lower case; raises ValueError for other texts.

    `1`, `yes` and the like are refused, so that a typing error switches nothing on.
    """
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("is neither true nor false")


def read_switch(text: str) -> bool:
    """Return whether a switch is on: for `true` and `1`, and for no other text."""
    return text.lower() in ("1", "true")


def read_text(text: str) -> str:
    return text


def read_secret(text: str) -> str:
    """Return the text of a secret, or of several separated by commas.

    Raises ValueError for a text of only separators and blanks: it has no secret, and the hub would be open to all.
    """
    if not any(each.isprintable() and not each.isspace() and each not in _SEPARATORS for each in text):
        raise ValueError("has no secret in it: set one of 16 or more characters, such as `openssl rand -hex 32` prints")
    return text


def read_caps(text: str) -> str:
    """Return the text unchanged if it is `LABEL=N`, separated by commas, with N above 0; else raise ValueError."""
    wrong = [part.strip() for part in text.split(",") if part.strip() and not _CAP.fullmatch(part)]
    if wrong:
        raise ValueError(
            f"has {wrong[0][:80]!r} in it: it is LABEL=N, separated by commas, with N from 1 to 999999999, such as "
            "gpu:a100=4,gpu:h100=2"
        )
    return text


def read_list(text: str) -> tuple[str, ...]:
    """Return the texts of a JSON list such as `["modifiers","selections"]`; `*` gives `("*",)`, which means all."""
    if text == "*":
        return ("*",)
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
        raise ValueError('is no JSON list of texts, such as ["one","two"], nor *, which allows all')
    return tuple(found)


def read_optional_list(text: str) -> tuple[str, ...] | None:
    """Return the texts of a list as `read_list` does, or None for `null`."""
    return None if text == "null" else read_list(text)


def read_names(text: str) -> tuple[str, ...]:
    """Return host names without ports, separated by commas in the text, in lower case."""
    found = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    if not all(_NAME.fullmatch(name) for name in found):
        raise ValueError("is no list of host names without ports, such as hub.example,hub")
    return found


def read_origins(text: str) -> tuple[str, ...]:
    """Return origins of web pages, separated by commas in the text, in lower case."""
    found = tuple(part.strip().rstrip("/").lower() for part in text.split(",") if part.strip())
    if not all(_ORIGIN.fullmatch(origin) for origin in found):
        raise ValueError("is no list of origins, such as https://console.example,http://localhost:3001")
    return found


def read_path(text: str) -> Path:
    """Return an absolute path: `~` is the home of the user, and a relative path begins at the working directory."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("names a home directory that does not exist") from None


_LEVELS = {
    "trace": "DEBUG", "verbose": "DEBUG", "debug": "DEBUG", "information": "INFO", "info": "INFO", "warning": "WARNING",
    "warn": "WARNING", "error": "ERROR", "critical": "CRITICAL", "fatal": "CRITICAL",
}  # fmt: skip


def read_level(text: str) -> str:
    """Return the Python name of a log level, given by that or another name in common use."""
    level = _LEVELS.get(text.strip().lower())
    if level is None:
        raise ValueError("is no log level: it is one of DEBUG, INFO, WARNING, ERROR and CRITICAL")
    return level


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a reader that accepts one of the words, in upper or lower case, and returns it as it is written here."""

    def read(text: str) -> str:
        for choice in choices:
            if choice.lower() == text.lower():
                return choice
        raise ValueError(f"is not one of {', '.join(choices)}")

    return read


def names_host(netloc: str) -> bool:
    """Return whether the host in the authority of a URL has a letter or digit, as every name has."""
    return any(each.isalnum() for each in netloc.rpartition("@")[2])


def read_link(text: str) -> str:
    """Return an address to which browsers are redirected: an http or https URL, or a path of the hub itself."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and names_host(parts.netloc) and parts.port != 0
    except ValueError:
        usable = False
    if re.search(r"\s", text) or not (usable or re.match(r"/(?![/\\])", text)):
        raise ValueError("is no address such as https://grafana.example/d/hub, nor a path such as /grafana")
    return text


def read_redis_url(text: str) -> str:
    """Return the URL of a Redis: `host:port` becomes `redis://host:port`. Raises `BadSetting` for a wrong one."""
    if re.search(r"\s", text):
        raise BadSetting("HUB_REDIS_URL has a space in it, which a URL writes as %20.")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/(?!/)", text):
        raise BadSetting("HUB_REDIS_URL has one slash where a URL has two: redis://host:port.")
    if "://" not in text:
        text = f"redis://{text}"
    scheme, _, rest = text.partition("://")
    if scheme.lower() not in _URL_SCHEMES:
        raise BadSetting(
            f"HUB_REDIS_URL begins with {scheme}://, and the hub knows only "
            + ", ".join(f"{known}://" for known in _URL_SCHEMES)
            + "."
        )
    url = f"{scheme.lower()}://{rest}"
    try:
        parts = urlsplit(url)
        usable = bool(parts.path) if scheme.lower() == "unix" else names_host(parts.netloc)
        if not (sentinel.is_sentinel(url) or cluster.is_cluster(url)):
            usable = usable and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise BadSetting(f"HUB_REDIS_URL={mask_url(url)} names no server the hub could connect to.")
    try:
        if sentinel.is_sentinel(url):
            sentinel.read_sentinel_url(url)
        elif cluster.is_cluster(url):
            cluster.read_cluster_url(url)
    except ValueError as error:
        raise BadSetting(f"HUB_REDIS_URL={mask_url(url).partition('?')[0]} {error}.") from None
    return url


def mask_url(text: str) -> str:
    """Return the text with the passwords in its URLs replaced by `***`; user names, hosts and paths stay readable."""
    shown: list[str] = []
    at = 0
    while slashes := _SLASHES.search(text, at):
        end = _end_of_url(text, slashes.end())
        shown += text[at : slashes.end()], _mask_address(text[slashes.end() : end])
        at = end
    return "".join(shown) + text[at:]


def _end_of_url(text: str, start: int) -> int:
    end = _end_of_word(text, start)
    if ":" not in text[start:end]:
        return end
    # The text after a colon may be a password with spaces, if an @ follows before the end of the line or the next URL.
    following = _NEXT_URL.search(text, end)
    last = text.rfind("@", end, following.start() if following else len(text))
    while last > 0 and text[last - 1].isspace():  # an @ of plain text, not of credentials
        last = text.rfind("@", end, last)
    return end if last < 0 else _end_of_word(text, last)


def _end_of_word(text: str, start: int) -> int:
    space = _SPACE.search(text, start)
    return space.start() if space else len(text)


def _mask_address(rest: str) -> str:
    # Passwords may hold an unescaped @ or /, so everything up to the last @ counts as credentials.
    credentials, at, address = rest.rpartition("@")
    if at:
        user, colon, _ = credentials.partition(":")
        address = f"{user}:{MASK}@{address}" if colon else f"{MASK}@{address}"
    base, question, query = address.partition("?")
    if _SECRET_PARAMETER.search(query):
        pairs = parse_qsl(query, keep_blank_values=True)
        query = "&".join(f"{key}={MASK if _SECRET_PARAMETER.search(key) else quote(value)}" for key, value in pairs)
    return f"{base}{question}{query}"
