"""The options that say which slots will do: `--where`, `--any-of`, `--prefer`, and labels of one segment beside them.

They are checked before anything is sent; a mistake in an expression is shown with a mark below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from hub.cli.inputs import Usage, read_label, read_stem, shown
from hub.cli.options import Input
from hub.client import HubClient
from hub.client.borrower import Borrowing
from hub.client.bundle import slots_in_words
from hub.errors import BadWhere

_THEN = " where "


class Choice(NamedTuple):
    """A label that will do, and what the slot must have; '' for nothing."""

    label: str
    where: str


def read_where(text: str) -> str:
    """Return an expression unchanged; raises `Usage` with its place in the text for one that cannot be read."""
    return _checked(text, text, 0)


def read_choice(text: str) -> Choice:
    """Return what `LABEL` or `LABEL where EXPR` says; raises `BadParameter` or `Usage`."""
    label, then, where = text.partition(_THEN)
    if then:
        _checked(text, where, len(label) + len(then))
    return Choice(read_stem(label) if then else read_label(label), where)


def sort_out(
    label: str | None, command: list[str] | None, where: str | None, any_of: Sequence[Choice] | None
) -> tuple[str, list[str]]:
    """Return LABEL, '' where `--any-of` stands in for it, and the words of COMMAND.

    Without LABEL the first word of COMMAND has taken its place, because the two dashes before COMMAND are not seen.
    Raises `Usage` where no label is given, and for one segment without an expression that chooses below it.
    """
    words = list(command or ())
    if any_of and not where and ":" not in (label or ""):
        return "", [*([label] if label else []), *words]
    if label is None:
        raise Usage("Missing argument 'LABEL'; see `hub borrow --help`.")
    if ":" not in label and not where:
        raise Usage(
            f"{shown(label)} is no label: it has too few segments; write at least two, such as gpu:a100, or --where."
        )
    return label, words


class BorrowWish(NamedTuple):
    """What a command wants to borrow: a slot, or several of one label at once."""

    label: str
    where: str
    any_of: Sequence[Choice]
    prefer: Sequence[str]
    realms: str
    number: int
    same_node: bool
    together: bool

    @property
    def named(self) -> str:
        """Return what is wanted, for sentences."""
        if self.number > 1:
            return slots_in_words(self.number, self.label)
        return self.label or " or ".join(choice.label for choice in self.any_of)

    def block(self, *, detach: bool, **how: Any) -> Callable[..., Borrowing[Any]]:
        """Return the method of `HubClient` that borrows it, with its keywords; raises `Usage` for those that conflict.

        `how` are the keywords of every borrow.
        """
        if detach and self.number > 1:
            raise Usage("A bundle cannot be detached yet: leave out --detach, and its slots are held until Ctrl-C.")
        one: dict[str, Any] = {"any_of": self.any_of, "prefer": self.prefer}
        one["realms"] = [name.strip() for name in self.realms.split(",") if name.strip()]
        if self.number == 1:
            if self.same_node or self.together:
                raise Usage("--same-node and --together are about several slots: say how many with --count.")
            return partial(HubClient.borrow, label=self.label, where=self.where, **one, **how)
        if any(one.values()):
            raise Usage("--count takes slots of one LABEL: not with --any-of, --prefer or --realms.")
        part = {"label": self.label, "count": self.number} | ({"where": self.where} if self.where else {})
        both: dict[str, Any] = {"same_node": self.same_node, "together": self.together}
        return partial(HubClient.borrow_all, parts=[part], **both, **how)


def _checked(whole: str, where: str, offset: int) -> str:
    from hub.capacity.where import parse  # imported here, because few commands have an expression

    try:
        parse(where)
    except BadWhere as error:
        raise Usage(str(error), f"{whole}\n{' ' * (offset + int(error.facts['position']) - 1)}^") from None
    return where


EXPRESSION = Input("EXPR", read_where)
WHERE = EXPRESSION.option(
    "What the attributes of the slot must satisfy, such as 'vram >= 40'. LABEL may then be its first segment.",
    "--where",
)
ANY_OF: Any = Input("CHOICE", read_choice).option(
    "What will do as well: a label, or 'gpu:h100 where vram >= 80'. Repeatable, the best one first.", "--any-of"
)
PREFER: Any = Input("KEY").option("Prefer a slot in which this is warm, such as repo-42. Repeatable.", "--prefer")
