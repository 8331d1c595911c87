"""The nearest `.env` file, and whether it may be believed.

It says where secrets are sent and what code is run, and it is looked for in every folder above the working directory.
So a file that another user has put into such a folder, or could change, is not read.
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
_LINKS: Final = 40  # as many as the system follows


@dataclass(frozen=True)
class EnvFile:
    """The file that was read, and in `passed_over` a sentence for each nearer file that was not."""

    path: Path | None = None
    variables: dict[str, str] = field(default_factory=dict)
    passed_over: tuple[str, ...] = ()


class _Unfit(Exception):
    """The reason why a file is not read, going on from its name."""


def nearest(start: Path) -> EnvFile:
    """Return the first `.env` at or above `start` that belongs to this user or root and that no other user can
    write."""
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
    """Return the text of the file at the end of all links. Each link is checked: its owner chooses the text."""
    at = path
    for _ in range(_LINKS):
        facts = at.lstat()
        _refuse_a_strangers(facts)
        if not stat.S_ISLNK(facts.st_mode):
            break
        at = at.parent / os.readlink(at)
    # Asked of what was opened: the name may mean something else by now.
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
        raise _Unfit(f"{what} belongs to {_user(facts.st_uid)}, and only files of this user or root are believed")


def _is_private(group: int) -> bool:
    """Return whether the group is the one that many systems give each user alone, under the user's name."""
    try:
        user = pwd.getpwuid(os.geteuid())
        found = grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
