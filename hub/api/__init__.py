"""The HTTP interface of the hub: routes, sockets, the contract, and the server."""

import hub.api.paths  # noqa: F401 - registers the path convertors before any route is made
