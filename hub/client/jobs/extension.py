"""The base classes of jobs (`Extension`) and of readable data (`Provider`). They need pydantic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from pydantic import BaseModel

from hub.client.jobs.tasks import Category


class Extension(BaseModel, ABC):
    """A job as a class: its fields are the parameters of a task, its JSON schema is shown to users.

    class Rotate(Extension):
        category: ClassVar[Category] = Category.MODIFIER
        angle: float = 0.0

        def run(self, vis, **kwargs): ...
    """

    category: ClassVar[Category | str]

    @abstractmethod
    def run(self, vis: Any, **kwargs: Any) -> Any:
        """Run a task, whose parameters are the fields of `self`."""


class Provider(BaseModel):
    """A kind of data that can be read: its fields are the parameters of a read."""

    category: ClassVar[str]
    content_type: ClassVar[str] = "application/json"

    def read(self, handler: Any) -> Any:
        """Return the data: JSON, or bytes for another `content_type`. `handler` is the object given at registration."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is read")
