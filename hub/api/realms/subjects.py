"""The realm that a call names, and the subject by which the hub finds the realm of a call that names none: a label, a
room, a node, an id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

import orjson
from starlette.types import Scope

from hub.api.operations import EVERYTHING, Found
from hub.api.paths import REALMS, read_id
from hub.api.shapes import neutral
from hub.errors import NotFound
from hub.jobs.names import SHARED
from hub.settings.realms import DEFAULT, Kind
from hub.tokens.models import realm_in

NAMED: Final = "hub.realm"  # in the scope of a call: the realm it names; empty: the default realm, None: no realm
HEADER: Final = b"x-hub-realm"
_CREDENTIALS: Final = (b"authorization", b"x-hub-secret")
_BEARER: Final = re.compile(r"bearer +", re.IGNORECASE)
_BEATS_MAX: Final = 1000


class About(NamedTuple):
    """The subject of a call: names that the rules decide on (`rules`), ids that carry the tag of a realm (`ids`), and a
    slot, a ticket or a bundle that the realms have to be searched for."""

    rules: tuple[tuple[Kind, str], ...] = ()
    ids: tuple[str, ...] = ()  # ids of workers, tasks and providers: 32 hex digits, in which a realm's tag may be
    slot: str = ""
    lease_token: str = ""
    ticket: str = ""
    bundle: str = ""
    realm: str | None = None  # the realm in which a borrow is to wait, when its body names one


class UnknownRealm(NotFound):
    """The refusal of a call for a realm that this hub does not serve."""

    code = "unknown-realm"


NOTHING: Final = About()


def name_in(scope: Scope) -> str | None:
    """Return the realm that a call names, by its path, its header or its token, in this order; empty for the default
    realm, None when the call names no realm. The realm is removed from the path."""
    if NAMED in scope:
        said: str | None = scope[NAMED]
        return said
    found = _in_path(scope)
    if found is None:
        found = _in_headers(scope)
    scope[NAMED] = found = "" if found == DEFAULT else found
    return found


def without_realm(url: bytes) -> bytes:
    """Return the path of a request without the realm at its beginning."""
    return b"/" + url.split(b"/", 3)[-1] if url.startswith(REALMS.encode()) else url


def _in_path(scope: Scope) -> str | None:
    path: str = scope["path"]
    if not path.startswith(REALMS):
        return None
    name, _, rest = path[len(REALMS) :].partition("/")
    scope["path"] = f"/{rest}"
    return read_id(name) or "?"  # no realm has this name


def _in_headers(scope: Scope) -> str | None:
    named = by_token = None
    for name, value in scope["headers"]:
        if name == HEADER and value:
            said = value.decode("latin-1")
            named = said if named in (None, said) else f"{named}, {said}"  # no realm has this name
        elif name in _CREDENTIALS and by_token is None:
            by_token = realm_in(_BEARER.sub("", value.decode("latin-1"), count=1).strip())
    return by_token if named is None else named


def needs_body(found: Found) -> bool:
    """Return whether the hub must read the body of a call to find the call's subject."""
    subject = found.row.about if found.row is not None and found.is_taken else None
    return subject is not None and subject.in_body


def about(found: Found, scope: Scope, body: bytes | None) -> About:
    """Return the subject of a call, by its path or by its body. Raises `NamesDiffer` when the body has two different
    values for one member, under its old and its neutral name."""
    subject = found.row.about if found.row is not None else None
    if subject is None or subject is EVERYTHING:
        return NOTHING
    if not subject.part:
        return _in_body(subject.kind, _object(body)) if found.is_taken else NOTHING
    said = str(found.parts[subject.part])
    match found.parts["kind"] if subject.kind == "why" else subject.kind:
        case "room":
            return About((("rooms", said),), _ids(_worker(_object(body))) if body else ())
        case "job":
            room, own = str(found.parts.get("room_id", "")), said.partition(":")[0] if ":" in said else ""
            return About((("rooms", room if own in ("", *SHARED) and room else own),))
        case "id" | "task" | "worker":
            return About(ids=_ids(said))
        case "label" | "pool":
            return About((("labels", label(said)),))
        case "node":
            return About((("nodes", said),))
        case "slot":
            return About(slot=said, lease_token=_token_in(scope))
        case "ticket":
            return About(ticket=said)
        case "bundle":
            return About(bundle=said)
    return NOTHING


def _token_in(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return parse_qs(query.decode("latin-1")).get("token", [""])[0]


def _object(body: bytes | None) -> Mapping[str, Any]:
    try:
        document = orjson.loads(body or b"")
    except orjson.JSONDecodeError:
        return {}  # the application of the realm refuses the body
    return document if isinstance(document, dict) else {}


def _in_body(kind: str, document: Mapping[str, Any]) -> About:
    get = document.get
    match kind:
        case "worker":
            return About(ids=_ids(_worker(document)))
        case "beats":
            beats = get("beats")
            named = [_node(each) for each in beats if isinstance(each, dict)] if isinstance(beats, list) else []
            return About(tuple(("nodes", node) for node in dict.fromkeys(named[:_BEATS_MAX]) if node))
        case "node":
            return About((("nodes", _node(document)),))
        case "leases":
            leases = get("leases")
            document = leases[0] if isinstance(leases, list) and leases and isinstance(leases[0], dict) else {}
    get = neutral.in_old_names(dict(document)).get
    asked = get("labelKey")
    if kind == "borrow" and asked is None and isinstance(others := get("anyOf") or get("parts"), list):
        asked = neutral.in_old_names(others[0]).get("labelKey") if others and isinstance(others[0], dict) else None
    rules: tuple[tuple[Kind, str], ...] = (("labels", label(_text(asked))),)
    if kind == "borrow":
        names = get("realms")
        return About(rules, realm=(_text(names[0]) or None) if isinstance(names, list) and names else None)
    return About(rules, (), _text(get("browserId")).strip(), _text(get("leaseToken")))


def label(text: str) -> str:
    """Return a label without the white space around its segments."""
    return ":".join(segment.strip() for segment in text.split(":"))


def _node(document: Mapping[str, Any]) -> str:
    """Return the id of the node in a body, as a hub reads it: from the first of `nodeId` and `NodeId` that is not
    empty, without the white space around it."""
    return next((said for name in ("nodeId", "NodeId") if (said := _text(document.get(name)).strip())), "")


def _worker(document: Mapping[str, Any]) -> Any:
    return document.get("worker_id") or document.get("workerId")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _ids(value: Any) -> tuple[str, ...]:
    return (value.replace("-", "").lower(),) if isinstance(value, str) else ()
