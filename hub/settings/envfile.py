"""The nearest `.env` file, read only if no other user can have written it.

The file decides where secrets are sent and which code runs, and it is searched for in the working directory and every
folder above. So a file that belongs to another user, or that another user could change, is not read.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Final

from dotenv import dotenv_values

NAME: Final = ".env"
_LINKS: Final = 40  # symbolic links followed, as many as the system follows


@dataclass(frozen=True)
class EnvFile:
    """The `.env` file that was read, with its variables; `passed_over` has a sentence on each nearer file not read."""

    path: Path | None = None
    variables: dict[str, str] = field(default_factory=dict)
    passed_over: tuple[str, ...] = ()


class _Unfit(Exception):
    """The reason why a file is not read, as the end of a sentence that begins with its name."""


def nearest(start: Path) -> EnvFile:
    """Return the first `.env` at or above `start` that belongs to this user or root and no other user can write."""
    passed_over: list[str] = []
    for folder in (start, *start.parents):
        path = folder / NAME
        try:
            if not path.is_file():
                continue
            text = _believed(path)
        except _Unfit as why:
            passed_over.append(f"{path} is not read: {why}")
        except OSError as error:
            passed_over.append(f"{path} is not read: {error.strerror or type(error).__name__}")
        except UnicodeDecodeError:
            passed_over.append(f"{path} is not read: it is not UTF-8")
        else:
            # No interpolation: a `$` in a secret is a `$`.
            found = dotenv_values(stream=StringIO(text), interpolate=False)
            return EnvFile(
                path, {name: value for name, value in found.items() if value is not None}, tuple(passed_over)
            )
    return EnvFile(passed_over=tuple(passed_over))


def _believed(path: Path) -> str:
    """Return the text of the file, after following links. Each link is checked too, because its owner chooses the file.

    Raises `_Unfit` when a link or the file belongs to another user, or others can write the file.
    """
    at = path
    for _ in range(_LINKS):
        facts = at.lstat()
        _refuse_a_strangers(facts)
        if not stat.S_ISLNK(facts.st_mode):
            break
        at = at.parent / os.readlink(at)
    # The open file is checked, not its name, which may mean another file by now.
    opened = os.open(at, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as file:
        facts = os.fstat(opened)
        _refuse_a_strangers(facts)
        if not stat.S_ISREG(facts.st_mode):
            raise _Unfit("it is no file")
        if facts.st_mode & stat.S_IWOTH or (facts.st_mode & stat.S_IWGRP and not _is_private(facts.st_gid)):
            raise _Unfit(f"others can write to it; chmod go-w {path} changes that")
        return file.read().decode("utf-8-sig")


def _refuse_a_strangers(facts: os.stat_result) -> None:
    if facts.st_uid not in (os.geteuid(), 0):
        what = "a link that leads to it" if stat.S_ISLNK(facts.st_mode) else "it"
        raise _Unfit(f"{what} belongs to {user_name(facts.st_uid)}, and only files of this user or root are believed")


def _is_private(group: int) -> bool:
    """Return whether a group has this user as its only member, as many systems make one for each user."""
    try:
        user = pwd.getpwuid(os.geteuid())
        found = grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}


def user_name(uid: int) -> str:
    """Return the name of a user of this machine, for the sentence of an error."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
