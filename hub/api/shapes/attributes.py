"""The shapes of answers about what slots are like."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.fields import doc


class CountsOfValueShape(TypedDict):
    """A value of an attribute, and how many slots have it."""

    value: Annotated[float | str | bool, doc("The value; of a list of texts, one of its texts.", 80)]
    slots: Annotated[int, doc("How many slots have it.", 8, ge=0)]
    free: Annotated[int, doc("How many of these are free.", 3, ge=0)]


class AttributeShape(TypedDict):
    """An attribute that slots have, as one type of value."""

    name: Annotated[str, doc("Its name in `where`.", "vram")]
    type: Annotated[Literal["number", "text", "bool", "list"], doc("The type of its values.", "number")]
    slots: Annotated[int, doc("How many slots have it.", 8, ge=0)]
    values: Annotated[list[CountsOfValueShape], doc("Its values in order, at most 100.", [])]
    more: NotRequired[Annotated[int, doc("How many values there are beside these; left out for none.", 12, ge=1)]]


class AttributesOfPoolShape(TypedDict):
    """What the slots are like that may serve a label."""

    label: w.AskedLabel
    slots: Annotated[int, doc("How many slots have attributes.", 8, ge=0)]
    attributes: Annotated[list[AttributeShape], doc("The attributes, by name.", [])]
    truncated: Annotated[bool, doc("So many pools may serve it that not all are counted.", False)]
    hint: NotRequired[
        Annotated[str, doc("That no pool serves the label, and what may be meant.", "no pool serves gpu:a10O")]
    ]
