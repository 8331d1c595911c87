"""When schedules are due, also where clocks are set forward and back."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from hub.jobs.rules import Rule, Unreadable

NEW_YORK = "America/New_York"
SPRING, AUTUMN = "2026-03-08", "2026-11-01"  # when clocks are set forward at 2:00, and back at 2:00


def at(text, zone="UTC"):
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000_000)


def on(day, cron):
    """Return when a rule is due on a day in New York, with the offset from UTC."""
    zone, found = ZoneInfo(NEW_YORK), []
    for at_us in Rule(cron, zone=NEW_YORK).due(at(f"{day}T00:00", NEW_YORK) - 1):
        moment = datetime.fromtimestamp(at_us / 1_000_000, zone)
        if moment.date().isoformat() != day:
            return found
        found.append(moment.strftime("%H:%M%z")[:8])
    return found


def one_by_one(rule, after_us, count):
    """Return the next moments of the rule, by one call for each."""
    return [after_us := rule.next(after_us) for _ in range(count)]


@pytest.mark.parametrize(
    ("day", "cron", "due"),
    [
        (SPRING, "30 2 * * *", ["03:00-040"]),  # there is no 2:30
        (SPRING, "0,30 2 * * *", ["03:00-040"]),
        (SPRING, "*/30 1-3 * * *", ["01:00-050", "01:30-050", "03:00-040", "03:30-040"]),
        (AUTUMN, "30 1 * * *", ["01:30-040"]),  # 1:30 comes twice
        (AUTUMN, "30 2 * * *", ["02:30-050"]),
        (AUTUMN, "*/30 1 * * *", ["01:00-040", "01:30-040", "01:00-050", "01:30-050"]),
    ],
)
def test_due_times_are_right_when_clocks_change(day, cron, due):
    assert on(day, cron) == [text[:8] for text in due]


@pytest.mark.parametrize("cron", ["30 1 * * *", "0,30 2 * * *", "*/20 * * * *", "0 */2 * * *", "15 1,2,3 * * *"])
@pytest.mark.parametrize("day", [SPRING, AUTUMN])
def test_due_times_computed_one_by_one_rise_and_never_repeat(day, cron):
    rule, begin = Rule(cron, zone=NEW_YORK), at(f"{day}T00:00", NEW_YORK)
    found = one_by_one(rule, begin, 60)
    assert found == sorted(set(found))
    assert found[0] > begin


def test_an_interval_counts_from_the_previous_due_time():
    rule = Rule(every_ms=90_000)
    assert one_by_one(rule, 1_000_000, 2) == [91_000_000, 181_000_000]
    assert rule.missed(1_000_000, 361_000_000, 3) == [181_000_000, 271_000_000, 361_000_000]
    assert rule.missed(1_000_000, 90_999_999, 3) == [1_000_000]


@pytest.mark.parametrize("cron", ["* * * * *", "* 9 * * 1", "0 9 1 * *"])
@pytest.mark.parametrize("most", [1, 100])
def test_of_due_times_missed_for_years_the_latest_are_found(cron, most):
    rule, now = Rule(cron), at("2026-01-01T00:00")
    found = rule.missed(at("2016-01-01T09:00"), now, most)
    assert found == sorted(set(found))
    assert len(found) == most
    assert rule.next(found[-1]) > now
    assert all(rule.next(one - 1) == one for one in found)


def test_no_due_time_is_missed_before_the_first():
    due = at("2026-01-01T02:30")
    assert Rule("30 2 * * *").missed(due, due + 5, 100) == [due]


def test_a_rule_that_is_never_due_is_detected_quickly():
    assert Rule("0 0 30 2 1#5").next(0) is not None  # a fifth Monday, or a day that never comes
    assert Rule("0 0 * * *").next(at("2099-12-31T23:00")) is None


@pytest.mark.parametrize(
    ("cron", "zone", "said"),
    [
        ("* * * *", "UTC", "has not five fields"),
        ("0 0 * * * *", "UTC", "has not five fields"),
        ("60 * * * *", "UTC", "bad minute"),
        ("0 0 30 2 *", "UTC", "bad day-of-month"),
        ("0 0 * * *", "Europe/Atlantis", "is no time zone"),
        ("0 0 * * *", "../../etc/passwd", "is no time zone"),
        ("0 0 * * *", "Europe", "is no time zone"),
        ("0 0 * * *", "", "is no time zone"),
    ],
)
def test_an_invalid_rule_is_refused_in_a_sentence(cron, zone, said):
    with pytest.raises(ValueError, match=said):
        Rule(cron, zone=zone)


def test_time_zones_come_from_the_package_where_the_machine_has_none():
    asked = "from hub.jobs.rules import Rule; print(Rule('0 0 * * *', zone='US/Eastern').next(0))"
    said = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == f"{5 * 3600 * 1_000_000}\n"


@pytest.mark.parametrize("zone", ["localtime", "posixrules", "posix/Europe/Berlin", "right/Europe/Berlin"])
def test_a_zone_that_depends_on_the_machine_is_refused(zone):
    with pytest.raises(ValueError, match=r"means another zone on each machine|is no time zone"):
        Rule("0 0 * * *", zone=zone).check()


@pytest.mark.parametrize("asked", [lambda rule: rule.next(0), lambda rule: rule.missed(1, 2, 1)])
def test_an_unreadable_rule_raises_when_its_due_time_is_asked_for(asked):
    with pytest.raises(ValueError, match="gone"):
        asked(Unreadable("0 0 * * *", zone="Europe/Atlantis", why="gone"))
