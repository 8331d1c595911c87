"""A claimed task whose job is an extension, and the full name of that job."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:  # only programs with extensions need pydantic
    from hub.client.jobs.extension import Extension

E = TypeVar("E", bound="Extension")


@dataclass(eq=False, slots=True)
class ClaimedTask(Generic[E]):
    """A task that this worker has claimed. `extension` has its parameters; `run_kwargs` come from the registration."""

    task_id: str
    job_name: str
    room_id: str
    extension: E
    run_kwargs: dict[str, Any] = field(default_factory=dict)


def category_of(extension: type[Extension]) -> str:
    """Return the category of an extension as text, also where it is a member of an enum."""
    category = extension.category
    return str(category.value) if isinstance(category, Enum) else category


def job_name(extension: type[Extension], room: str) -> str:
    """Return the full name of the job that an extension becomes in a room."""
    return f"{room}:{category_of(extension)}:{extension.__name__}"
