"""`hub doctor`: looks for broken invariants in a running system, and mends what can be mended."""

from hub.doctor.examine import Finding, examine

__all__ = ["Finding", "examine"]
