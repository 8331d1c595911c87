"""The environment of a command: the variables of the process and of `.env`, secrets, proxies, and the caller."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from hub.cli import output
from hub.cli.inputs import Usage
from hub.client.trust import TLS_NAMES
from hub.outgoing import is_of_this_machine
from hub.settings import mask_url, read_environment
from hub.settings.sources import Environment

_LONGEST_SECRET = 65_536


def environment() -> Environment:
    """Return the variables of the process and of the nearest `.env`; print a note on a `.env` of another folder."""
    variables = read_environment()
    for sentence in variables.file.passed_over:
        output.note_once(f"{sentence}.")
    if variables.file.path is not None:
        tell = output.note_if_verbose if variables.file.path.parent == Path.cwd() else output.note_once
        tell(f"settings come from {variables.file.path}.")
    # The SDK, and a command that runs with a slot, read only the environment.
    for name in TLS_NAMES:
        if variables.is_from_file(name):
            os.environ[name] = variables[name]
    return variables


def given_secret(text: str, option: str) -> str:
    """Return the secret of `--secret` or `--token`: `@FILE` reads a file, `-` reads stdin; raises `Usage`."""
    if text == "-":
        return _contents(sys.stdin.read(_LONGEST_SECRET), option, "stdin")
    if text.startswith("@"):
        try:
            with Path(text[1:]).expanduser().open(encoding="utf-8") as file:
                return _contents(file.read(_LONGEST_SECRET), option, text[1:])
        except (OSError, RuntimeError) as error:
            raise Usage(f"{option}: {text[1:]} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
        except UnicodeDecodeError:
            raise Usage(f"{option}: {text[1:]} is not text in UTF-8.") from None
    if text and text.isascii():  # any other text is refused as soon as it is used
        output.note_once(
            f"what follows {option} is visible to every user of this machine who lists its processes; "
            f"{option} @FILE or {option} - keeps it hidden."
        )
    return text


def _contents(text: str, option: str, where: str) -> str:
    secret = text.strip()
    if not secret:
        raise Usage(f"{option}: there is nothing in {where}.")
    return secret


def tell_of_proxies(url: str) -> None:
    """Print a note, with `--verbose`, when a proxy is set and not used because the hub is on this machine."""
    proxies = urllib.request.getproxies_environment()
    proxy = proxies.get(urlsplit(url).scheme.lower()) or proxies.get("all")
    if proxy and is_of_this_machine(url):
        output.note_if_verbose(f"the proxy {mask_url(proxy)} is not used: {mask_url(url)} is on this machine.")


def caller() -> str:
    """Return `user@host` of this process, which the hub records with a change that this command makes."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a user id without a name
        return f"{os.getuid()}@{socket.gethostname()}"
