"""Extensions and providers that tests register."""

from __future__ import annotations

from typing import Any, ClassVar

from hub.client.jobs import Category, Extension, Provider

JOB = "@global:modifiers:Rotate"


class Rotate(Extension):
    category: ClassVar[Category] = Category.MODIFIER
    angle: float = 0.0

    def run(self, vis: Any, **kwargs: Any) -> None:
        pass


class Count(Extension):
    category: ClassVar[str] = "analysis"

    def run(self, vis: Any, **kwargs: Any) -> None:
        pass


class Files(Provider):
    category: ClassVar[str] = "filesystem"
    path: str = "/"

    def read(self, handler: Any) -> Any:
        return handler[self.path]


class Frames(Files):
    category: ClassVar[str] = "frames"
    content_type: ClassVar[str] = "application/octet-stream"
