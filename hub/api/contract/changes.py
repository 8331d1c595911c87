"""The comparison of two contracts: each change that breaks clients, in a sentence that names it. The functions only
compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]


def breaks(old: Document, new: Document) -> list[str]:
    """Return a sentence for each change from `old` to `new`, two versions of a contract, that breaks clients made from
    `old`."""
    compared = _Comparison(old, new)
    return list(dict.fromkeys(compared.messages() if "asyncapi" in old else compared.operations()))


class _Comparison:
    """A comparison of two versions of a contract. With `sent` a schema describes what clients send, else what they
    read."""

    def __init__(self, old: Document, new: Document) -> None:
        self._old, self._new = old, new
        self._seen: set[tuple[str, str, bool]] = set()

    def operations(self) -> Iterator[str]:
        for path, methods in self._old["paths"].items():
            for method, old in methods.items():
                new = self._new["paths"].get(path, {}).get(method)
                name = f"{old['operationId']} ({method.upper()} {path})"
                if new is None:
                    yield f"The operation {name} is gone."
                else:
                    yield from self._operation(name, old, new)

    def messages(self) -> Iterator[str]:
        """Yield a sentence for each break between two AsyncAPI documents. Messages of the hub are compared as answers
        are, messages of clients as bodies."""
        for name, old in self._old["operations"].items():
            new = self._new["operations"].get(name)
            if new is None or new["channel"] != old["channel"]:
                yield f"The message {name} is gone from {old['channel']['$ref'].rpartition('/')[2]}."
                continue
            was, now = (each["components"]["messages"][name]["payload"] for each in (self._old, self._new))
            yield from self._schema(name, was, now, sent=old["action"] == "receive")

    def _operation(self, name: str, old: Document, new: Document) -> Iterator[str]:
        if old["operationId"] != new["operationId"]:
            yield f"The operation {name} is called {new['operationId']} now."
        for scheme in (scheme for each in old["security"] for scheme in each):
            if not any(scheme in each for each in new["security"]):
                yield f"{name} does not take {scheme} any more."
        before, after = (
            {(each["in"], each["name"]): each for each in one.get("parameters", [])} for one in (old, new)
        )  # fmt: skip
        for (place, called), each in before.items():
            if (place, called) not in after:
                yield f"The {place} parameter {called} of {name} is gone."
            else:
                where = f"the {place} parameter {called} of {name}"
                yield from self._schema(where, each["schema"], after[place, called]["schema"], sent=True)
        for (place, called), each in after.items():
            if each["required"] and not before.get((place, called), {}).get("required"):
                yield f"The {place} parameter {called} of {name} is required now."
        yield from self._bodies(name, old.get("requestBody"), new.get("requestBody"))
        for status, answer in old["responses"].items():
            if status not in new["responses"]:
                yield f"The answer {status} of {name} is gone."
                continue
            was, now = self._resolved(answer, self._old), self._resolved(new["responses"][status], self._new)
            for code in was.get("x-codes", []):
                if code not in now.get("x-codes", []):
                    yield f"The code {code} of {name} is gone."
            yield from self._contents(f"the answer {status} of {name}", was, now, sent=False)

    def _bodies(self, name: str, old: Document | None, new: Document | None) -> Iterator[str]:
        if old is None:
            if new and new["required"]:
                yield f"{name} needs a body now."
        elif new is None:
            yield f"The body of {name} is gone."
        else:
            if new["required"] and not old["required"]:
                yield f"{name} needs a body now."
            yield from self._contents(f"the body of {name}", old, new, sent=True)

    def _contents(self, where: str, old: Document, new: Document, *, sent: bool) -> Iterator[str]:
        for kind, content in old.get("content", {}).items():
            if kind not in new.get("content", {}):
                yield f"{kind} is gone from {where}."
            else:
                yield from self._schema(where, content["schema"], new["content"][kind]["schema"], sent=sent)

    def _schema(self, where: str, old: Document, new: Document, *, sent: bool) -> Iterator[str]:
        if "$ref" in old:
            where = old["$ref"].rpartition("/")[2]
            pair = (old["$ref"], new.get("$ref", where), sent)
            if pair in self._seen:
                return
            self._seen.add(pair)
        old, new = self._resolved(old, self._old), self._resolved(new, self._new)
        yield from self._kinds(where, old, new, sent=sent)
        for name, member in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                yield f"The member {name} is gone from {where}."
            else:
                yield from self._schema(f"{name} of {where}", member, new["properties"][name], sent=sent)
        before, after = (set(each.get("required", [])) for each in (old, new))
        if sent:
            yield from (f"The member {name} of {where} is required now." for name in sorted(after - before))
        else:
            left = (before - after) & set(new.get("properties", {}))
            yield from (f"The member {name} of {where} may be missing now." for name in sorted(left))
        for inner in ("items", "additionalProperties"):
            if isinstance(old.get(inner), dict) and isinstance(new.get(inner), dict):
                yield from self._schema(where, old[inner], new[inner], sent=sent)

    def _kinds(self, where: str, old: Document, new: Document, *, sent: bool) -> Iterator[str]:
        """Yield a sentence for each enumeration that has lost a value, each type that has changed, and each choice that
        has lost an alternative."""
        for value in old.get("enum", []):
            if value not in new.get("enum", [value]):
                yield f"The value {value} is gone from {where}."
        was, now = _types(old), _types(new)
        wrong = was - now if sent or not was else now - was
        if was and now and wrong:
            yield f"The type of {where} was {' or '.join(sorted(was))} and is {' or '.join(sorted(now))}."
        elif "anyOf" in old and "anyOf" in new:
            for one, other in zip(old["anyOf"], new["anyOf"], strict=False):
                yield from self._schema(where, one, other, sent=sent)
            if len(new["anyOf"]) < len(old["anyOf"]):
                yield f"An alternative is gone from {where}."

    def _resolved(self, found: Document, document: Document) -> Document:
        if "$ref" not in found:
            return found
        _, _, kind, name = found["$ref"].split("/")
        resolved: Document = document["components"][kind][name]
        return resolved


def _types(schema: Document) -> set[str]:
    types = schema.get("type", [])
    names = {types} if isinstance(types, str) else set(types)
    return names | {"number"} if "integer" in names and "number" in names else names
