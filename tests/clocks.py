"""Processes whose clock is wrong."""

from __future__ import annotations

# Python that runs in a process before it begins: its time of day is off by so many seconds of the environment, and what
# measures durations is right.
OFF = """
import datetime, os, time
off = float(os.environ.get("TEST_CLOCK_OFF_S", "0"))
wall, wall_ns = time.time, time.time_ns
time.time, time.time_ns = lambda: wall() + off, lambda: wall_ns() + int(off * 1e9)
class Off(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)
datetime.datetime = Off
"""
