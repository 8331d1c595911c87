"""What a program that serves jobs or data derives from: `Extension` and `Provider`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel


class Category(StrEnum):
    """The categories a job has unless the hub is set up otherwise."""

    MODIFIER = "modifiers"
    SELECTION = "selections"
    ANALYSIS = "analysis"


class Extension(BaseModel, ABC):
    """A job as a class: its fields are the parameters of a task, its JSON schema is what users are shown.

    class Rotate(Extension):
        category: ClassVar[Category] = Category.MODIFIER
        angle: float = 0.0

        def run(self, vis, **kwargs): ...
    """

    category: ClassVar[Category | str]

    @abstractmethod
    def run(self, vis: Any, **kwargs: Any) -> Any:
        """Do the work with the parameters in `self`."""


class Provider(BaseModel):
    """A kind of data that can be read: its fields are the parameters of a read."""

    category: ClassVar[str]
    content_type: ClassVar[str] = "application/json"

    def read(self, handler: Any) -> Any:
        """What was asked for, from the handler given at registration: JSON, or bytes for another `content_type`."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is read")


E = TypeVar("E", bound=Extension)


@dataclass(eq=False, slots=True)
class ClaimedTask(Generic[E]):
    """A task that is this worker's to run: the extension with its parameters, and what was registered with it."""

    task_id: str
    job_name: str
    room_id: str
    extension: E
    run_kwargs: dict[str, Any] = field(default_factory=dict)


def category_of(extension: type[Extension]) -> str:
    """The category as the wire has it."""
    category = extension.category
    return str(category.value) if isinstance(category, Enum) else category


def job_name(extension: type[Extension], room: str) -> str:
    """The full name of the job a class becomes in a room."""
    return f"{room}:{category_of(extension)}:{extension.__name__}"
