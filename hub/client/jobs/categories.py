"""The categories of jobs."""

from enum import StrEnum


class Category(StrEnum):
    """The categories a job has unless the hub is set up otherwise."""

    MODIFIER = "modifiers"
    SELECTION = "selections"
    ANALYSIS = "analysis"
