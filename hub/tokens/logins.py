"""The logins to the console. A login has the rights of the credential it was made with; its key is stored as digest."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import orjson

from hub.errors import StoreFull
from hub.store.cancelling import retrieve_error
from hub.store.store import Store

ROLES: Final = ("viewer", "operator", "admin")  # each has also the rights of the roles before it
LIFE_S: Final = 12 * 3600.0  # a login ends after this long, even if it is used
IDLE_S: Final = 2 * 3600.0  # a login ends after this long without a call
LINK_S: Final = 300  # a login link can be opened for this long
LOGINS_MAX: Final = 1_000  # logins in all; beyond, the credential with the most loses its oldest
LOGINS_EACH: Final = 100  # logins of one credential; beyond, its oldest end
LINKS_MAX: Final = 1_000  # links not yet opened, limited in the same way as logins
LINKS_EACH: Final = 100
REMEMBERED_S: Final = 1.0  # a login that was ended at another hub is accepted here for this long at most
LATELY_S: Final = 5.0  # an open page sends calls more often than this; other logins are not remembered
TOUCH_S: Final = 30.0
ID_DIGITS: Final = 16


@dataclass(frozen=True)
class Login:
    """A login to the console with the rights of its role. `name` names the credential that the caller logged in with.

    `bound` ties the login to a shared secret, which is stored nowhere; `token` is the digest of a user's token;
    `claims` are those of a user of the issuer, as JSON.
    """

    name: str
    role: str
    bound: str = ""
    token: str = ""
    ip: str = ""
    agent: str = ""
    at_s: float = 0.0
    id: str = ""
    seen_s: float = 0.0
    claims: str = ""
    life_s: float = LIFE_S

    @property
    def until_s(self) -> float:
        """Return the Unix time in s at which the login ends at the latest."""
        return self.at_s + self.life_s


def capped(role: str, most: str) -> str:
    """Return the role with fewer rights of these two."""
    return min(role, most, key=ROLES.index)


def bond(key: str, secret: bytes) -> str:
    """Return a digest of the shared secret under the key of a login: without the key it tells nothing of the secret."""
    return hmac.new(key.encode(), secret, hashlib.sha256).hexdigest()


def digest(key: str) -> str:
    """Return the digest under which the key of a login or a link is stored."""
    return hashlib.sha256(key.encode()).hexdigest()


@dataclass
class _Found:
    """A remembered login: when the store was last asked for it, and when a caller last sent its key."""

    login: Login
    looked: float
    shown: float


class Logins:
    """The logins and the login links in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[str, _Found] = {}  # remembered logins of open pages, by the digest of the key
        self._reading: asyncio.Future[None] | None = None  # the read of all remembered logins that is under way
        self._touched: dict[str, float] = {}

    async def create(self, key: str, login: Login) -> Login:
        """Store a login under a new key and return it with its id and time; remove logins that are over."""
        store, keys, now = self._store, self._store.keys, self._store.wall_s()
        for each in await self.all():
            if not self._is_good(each, now):
                await self.end(each.id)
        for each in too_many(await self.all(), login, LOGINS_EACH, LOGINS_MAX):
            await self.end(each.id)
        made = replace(login, id=digest(key)[:ID_DIGITS], at_s=now, seen_s=now)
        facts = {name: value for name, value in _facts(made).items() if name not in ("id", "seen_s")}
        await store.read("ZADD", keys.logins_seen, now, made.id)
        await store.read("HSET", keys.logins, made.id, orjson.dumps({**facts, "digest": digest(key)}).decode())
        return made

    async def find(self, key: str) -> Login | None:
        """Return the login of this key, at most a second old, None without one; raises `StoreUnavailable`."""
        full, now = digest(key), time.monotonic()
        found = self._found.get(full)
        for _ in range(2):  # a read that is under way may have begun too long ago; the next has not
            if found is None or time.monotonic() - found.looked < REMEMBERED_S:
                break
            found.shown = now
            await self._read_again()
            found = self._found.get(full)
        if found is None:
            found = await self._read_one(full, now)
        if found is None:
            return None
        found.shown, login = now, found.login
        if now - self._touched.get(login.id, -TOUCH_S) >= TOUCH_S:
            if len(self._touched) > LOGINS_MAX:
                self._touched.clear()
            self._touched[login.id] = now
            with contextlib.suppress(StoreFull):  # the call goes on, and the login shows an older time
                await self._store.read("ZADD", self._store.keys.logins_seen, "XX", self._store.wall_s(), login.id)
        return login

    async def _read_one(self, full: str, now: float) -> _Found | None:
        """Read a login that is not remembered from the store, by itself: a caller that guesses keys delays no other."""
        kept, (login,) = self._found, await self._read([full])
        if login is None:
            return None
        if len(kept) >= LOGINS_MAX:
            kept.clear()
        found = kept[full] = _Found(login, now, now)
        return found

    async def _read_again(self) -> None:
        """Read all remembered logins from the store in one call, which costs little more than one login. A caller that
        comes meanwhile waits for the same read and gets its result or its error."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read_remembered())
            self._reading.add_done_callback(self._end_reading)
        await asyncio.shield(self._reading)

    async def _read_remembered(self) -> None:
        kept, now = self._found, time.monotonic()
        for full, of in list(kept.items()):
            if now - of.shown >= LATELY_S:
                del kept[full]
        for full, login in zip(list(kept), await self._read(list(kept)), strict=True):
            if login is None:
                kept.pop(full, None)
            elif full in kept:
                kept[full] = _Found(login, now, kept[full].shown)

    def _end_reading(self, reading: asyncio.Future[None]) -> None:
        self._reading = None
        retrieve_error(reading)

    async def _read(self, wanted: Sequence[str]) -> list[Login | None]:
        keys, names, now_s = self._store.keys, [full[:ID_DIGITS] for full in wanted], self._store.wall_s()
        texts, seen = await self._store.read_all(
            [("HMGET", keys.logins, *names), ("ZMSCORE", keys.logins_seen, *names)]
        )
        found = [_login(name, text, at, full) for name, text, at, full in zip(names, texts, seen, wanted, strict=True)]
        return [login if login and self._is_good(login, now_s) else None for login in found]

    async def all(self) -> list[Login]:
        """Return every login in the store, the newest first, also logins that are over."""
        keys = self._store.keys
        texts = await self._store.read("HGETALL", keys.logins)
        seen = await self._store.read("ZMSCORE", keys.logins_seen, *texts) if texts else []
        found = [_login(name, text, at) for (name, text), at in zip(texts.items(), seen, strict=True)]
        return sorted((each for each in found if each), key=lambda each: -each.at_s)

    async def good(self) -> list[Login]:
        """Return the logins that are not over."""
        now = self._store.wall_s()
        return [each for each in await self.all() if self._is_good(each, now)]

    async def end(self, name: str) -> bool:
        """End the login with this id; return whether there was one."""
        gone = await self._store.read("HDEL", self._store.keys.logins, name)
        await self._store.read("ZREM", self._store.keys.logins_seen, name)
        self._found = {}  # a new dict, so that a read under way does not remember the login again
        return bool(gone)

    async def make_link(self, login: Login, key: str) -> None:
        """Store the login that a link gives, until the link is opened or five minutes are over."""
        store, links, now = self._store, self._store.keys.login_links, self._store.wall_s()
        texts = await store.read("HGETALL", links)
        made = [each for name, text in texts.items() if (each := _linked(name, text))]
        kept = sorted((each for each in made if now - each.at_s < LINK_S), key=lambda each: -each.at_s)
        over = texts.keys() - {each.id for each in kept}
        over |= {each.id for each in too_many(kept, login, LINKS_EACH, LINKS_MAX)}
        if over:
            await store.read("HDEL", links, *sorted(over))
        text = orjson.dumps(_facts(replace(login, at_s=now))).decode()
        await store.read("HSET", links, digest(key), text)
        await store.read("EXPIRE", links, LINK_S)

    async def open_link(self, key: str) -> Login | None:
        """Return the login that the link of this key gives, and use the link up; None for an unknown or old link."""
        links, name = self._store.keys.login_links, digest(key)
        text = await self._store.read("HGET", links, name)
        if not text or not await self._store.read("HDEL", links, name):
            return None
        login = _linked("", text)
        return login if login and self._store.wall_s() - login.at_s < LINK_S else None

    @staticmethod
    def _is_good(login: Login, now_s: float) -> bool:
        return now_s < login.until_s and now_s - login.seen_s < IDLE_S


def too_many(kept: Sequence[Login], new: Login, each_max: int, most: int) -> list[Login]:
    """Return which of the logins (or links) `kept`, newest first, must end for `new`. A credential over its
    limit loses its own oldest; beyond `most` in all, the credential with the most loses its oldest.
    """
    of: dict[str, list[Login]] = {}
    for each in kept:
        of.setdefault(each.token or each.name, []).append(each)
    own = of.get(new.token or new.name, [])
    going = own[each_max - 1 :]
    del own[each_max - 1 :]
    for _ in range(len(kept) - len(going) - most + 1):
        going.append(max(of.values(), key=len).pop())
    return going


def new_key() -> str:
    """Return a new key of 256 random bits for a login or a link."""
    return secrets.token_urlsafe(32)


def _facts(login: Login) -> dict[str, Any]:
    """Return the fields of a login; those of the issuer only where it has them, because older hubs do not know them."""
    return {name: each for name, each in asdict(login).items() if login.claims or name not in ("claims", "life_s")}


def _login(name: str, text: str | None, seen: Any, full: str = "") -> Login | None:
    """Return a login from its stored text; None without text, and for a text that this hub cannot read."""
    if text is None:
        return None
    try:
        facts = orjson.loads(text)
        kept = facts.pop("digest")
        if not isinstance(kept, str):
            return None
        login = _checked(Login(**facts, id=name, seen_s=facts["at_s"] if seen is None else seen))
        return login if not full or hmac.compare_digest(kept.encode(), full.encode()) else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _linked(name: str, text: str) -> Login | None:
    """Return the login of a link from its stored text; None for a text that this hub cannot read."""
    try:
        return _checked(Login(**{**orjson.loads(text), "id": name}))
    except (ValueError, TypeError, AttributeError):
        return None


def _checked(login: Login) -> Login:
    """Return the login with its times as floats; raise `ValueError` or `TypeError` where a field is not what it is."""
    texts = (login.name, login.role, login.bound, login.token, login.ip, login.agent, login.claims)
    if not (all(isinstance(each, str) for each in texts) and login.role in ROLES and login.bound.isascii()):
        raise ValueError("a field of the login has another type, or its role is unknown")
    return replace(login, at_s=float(login.at_s), seen_s=float(login.seen_s), life_s=min(LIFE_S, float(login.life_s)))
