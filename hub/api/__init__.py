"""HTTP: the wire of the hub."""

import hub.api.paths  # noqa: F401 - its convertors of ids, before any route is made
