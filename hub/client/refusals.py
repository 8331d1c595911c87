"""Refusals of a hub: an answer with a problem document becomes the error class that the hub raised."""

from __future__ import annotations

from typing import Any

from hub.errors import HubError, Malformed, Unauthorized, UnknownReply

_OF_BROWSERS, _OF_SLOTS = "No browser available", "No slot available"  # the hub sends the first, for older clients
_OF_EVERY_PROBLEM = ("type", "title", "detail", "instance")


def _tree(base: type[HubError]) -> list[type[HubError]]:
    return [kind for child in base.__subclasses__() for kind in (child, *_tree(child))]


def code_of(problem: dict[str, Any]) -> str:
    """Return the code of a problem document; the jobs API has it at the end of `type`."""
    return str(problem.get("code") or str(problem.get("type", "")).rpartition("/")[2])


def from_problem(problem: dict[str, Any], retry_after_s: float | None = None) -> HubError:
    """Return the error of a problem document, of the class that the hub raised; a `HubError` if it is unknown.

    The class is found by the code, or else it is the most general class of the status. Its `facts` are the other
    members: `status`, `code`, and those of the refusal itself.
    """
    status, detail = problem.get("status"), problem.get("detail")
    code = code_of(problem)
    kinds = _tree(HubError)
    kind = next((k for k in kinds if k.code == code), None) or next((k for k in kinds if k.status == status), HubError)
    if isinstance(detail, list):  # from the jobs API, for a request that does not validate
        kind, detail = Malformed, "; ".join(str(fault.get("msg", fault)) for fault in detail if isinstance(fault, dict))
        problem = {**problem, "errors": problem["detail"]}
    if isinstance(detail, str) and detail.startswith(_OF_BROWSERS):
        detail = f"{_OF_SLOTS}{detail.removeprefix(_OF_BROWSERS)}"
    if isinstance(detail, str) and isinstance(hint := problem.get("hint"), str):
        detail = f"{detail.rstrip('.')}: {hint}"
    error = kind(detail) if kind is not UnknownReply else HubError(detail)
    error.facts = {name: value for name, value in problem.items() if name not in _OF_EVERY_PROBLEM}
    if retry_after_s is not None:
        error.retry_after_s = retry_after_s
    return error


def heard(error: HubError, shown: str) -> HubError:
    """Return the error without traceback, for the program; `shown` is added to the text of a refused secret."""
    if isinstance(error, Unauthorized) and shown and not str(error).endswith(shown):
        error.detail = f"{str(error).rstrip('.')}; {shown}"
        error.args = (error.detail,)
    return error.with_traceback(None)
