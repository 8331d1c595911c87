"""`hub doctor`, which finds broken invariants in a store in use and repairs those that it can."""

from hub.doctor.examine import Finding, examine

__all__ = ["Finding", "examine"]
