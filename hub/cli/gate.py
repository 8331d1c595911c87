"""`hub gate`: one URL for borrowers that know no hub."""

from __future__ import annotations

import os

from typer import Option

from hub.cli.connection import address
from hub.cli.inputs import Usage, given
from hub.cli.options import URL, Input
from hub.cli.serving import check_port, until_signalled
from hub.client.trust import CERT_FILE, KEY_FILE
from hub.errors import StartRefused
from hub.observability.logs import configure_logs
from hub.settings import BadSetting, load_settings


def gate(
    host: str | None = Input("HOST").option("The address to listen on. Default: HUB_GATE_HOST, then 127.0.0.1."),
    port: int | None = Option(None, min=0, max=65_535, help="The port. Default: HUB_GATE_PORT, then 4444."),
    url: str | None = URL,
) -> int:
    """Lend slots to those that connect to ws://HOST:PORT/connect/LABEL, until SIGTERM or Ctrl-C."""
    if host is not None and not host.strip():
        raise Usage("--host is empty.")
    variables = given({"HUB_GATE_HOST": host, "HUB_GATE_PORT": port})
    os.environ.update({name: str(value) for name, value in variables.items()})
    for name in (CERT_FILE, KEY_FILE):  # a certificate of its own would let in callers that show nothing
        os.environ.pop(name, None)
    settings = load_settings()
    configure_logs(settings)
    try:
        settings.refuse_tls_in_part()
    except BadSetting as error:
        raise StartRefused(str(error)) from None
    check_port(settings.gate_host, settings.gate_port, "HUB_GATE_PORT")
    from hub.gate.server import serve_gate  # imports the server, after wrong input was refused

    where = address(url, "", "look").url
    return until_signalled(lambda: serve_gate(settings, where))
