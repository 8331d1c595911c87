"""`hub doctor`: checks for broken invariants in a running system, and repairs what can be repaired."""

from hub.doctor.examine import Finding, examine

__all__ = ["Finding", "examine"]
