"""Paths that more than the routes behind them know, and how those of the jobs API are taken apart."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor

PREFIX = "/v1/joblib"  # of the jobs API
AGE_MS = "x-hub-age-ms"  # the header that says how old an answer was when it was given: a page counts that in
EVENTS = "/events"
PAGE_EVENTS = "/console/events"  # the same for a page of the console, and the overview with them
ENDLESS = (EVENTS, PAGE_EVENTS)  # the paths whose answers have no end, and no time limit
SOCKETS = "/socket.io/"
ABORT = "hub.abort"  # in the extensions of a request to those: cuts its connection


def is_ours(path: str) -> bool:
    """Whether a path is one of the jobs API, known to it or not."""
    return path.startswith(PREFIX) and path[len(PREFIX) :][:1] in ("", "/")


class _Rest(Convertor[str]):
    """The rest of a path as a full name: slashes, colons, line breaks, and nothing at all."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("full", _Rest())
