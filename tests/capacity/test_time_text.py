"""Time as Redis scripts write and read it, against Python's own calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hub.store.library import modules

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def parse_time(redis):
    text = "local ms = times.parse(ARGV[1])\nreturn ms and string.format('%.0f', ms)"
    script = redis.register_script(modules("times") + text)
    return lambda given: script(args=[given])


@pytest.fixture
def time_text(redis):
    script = redis.register_script(modules("times") + "return times.text(tonumber(ARGV[1]))")
    return lambda ms: script(args=[ms])


def in_ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


READ = [
    ("2025-04-03T08:15:30.1234560Z", datetime(2025, 4, 3, 8, 15, 30, 123000, tzinfo=UTC)),
    ("2025-04-03T08:15:30.123456Z", datetime(2025, 4, 3, 8, 15, 30, 123000, tzinfo=UTC)),
    ("2025-04-03T08:15:30.123456789Z", datetime(2025, 4, 3, 8, 15, 30, 123000, tzinfo=UTC)),
    ("2025-04-03T08:15:30.1Z", datetime(2025, 4, 3, 8, 15, 30, 100000, tzinfo=UTC)),
    ("2025-04-03T08:15:30Z", datetime(2025, 4, 3, 8, 15, 30, tzinfo=UTC)),
    ("2025-04-03T08:15:30", datetime(2025, 4, 3, 8, 15, 30, tzinfo=UTC)),
    ("2025-04-03T08:15:30.5", datetime(2025, 4, 3, 8, 15, 30, 500000, tzinfo=UTC)),
    ("2025-04-03T08:15:30.1234560+00:00", datetime(2025, 4, 3, 8, 15, 30, 123000, tzinfo=UTC)),
    ("2025-04-03T08:15:30+02:00", datetime(2025, 4, 3, 6, 15, 30, tzinfo=UTC)),
    ("2025-04-03T08:15:30-05:30", datetime(2025, 4, 3, 13, 45, 30, tzinfo=UTC)),
    ("2025-01-01T00:30:00+01:00", datetime(2024, 12, 31, 23, 30, tzinfo=UTC)),
    ("2024-02-29T12:00:00Z", datetime(2024, 2, 29, 12, tzinfo=UTC)),
    ("2000-02-29T12:00:00Z", datetime(2000, 2, 29, 12, tzinfo=UTC)),
    ("1969-12-31T23:59:59Z", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
    ("9999-12-31T23:59:59.999Z", datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
]
INVALID = [
    "", "yesterday", "2025-04-03", "08:15:30Z", "2025-04-03T08:15Z", "2025-4-3T08:15:30Z",
    "2025-04-03T08:15:30.1234567890Z",
    "2025-04-03T08:15:30.12x4Z", "2025-13-03T08:15:30Z", "2025-00-03T08:15:30Z", "2025-04-31T08:15:30Z",
    "2025-02-29T08:15:30Z", "1900-02-29T08:15:30Z", "2025-04-00T08:15:30Z", "2025-04-03T24:15:30Z",
    "2025-04-03T08:60:30Z", "2025-04-03T08:15:61Z", "2025-04-03T08:15:30+2:00", "2025-04-03T08:15:30+25:00",
    "2025-04-03T08:15:30 Z", "2025-04-03T08:15:30ZZ", " 2025-04-03T08:15:30Z", "2025-04-03T08:15:30Z\n", "1743668130",
    "2025-04-03T08:15:30.Zulu", "٢٠٢٥-04-03T08:15:30Z",
]  # fmt: skip


@pytest.mark.parametrize(("given", "moment"), READ, ids=[row[0] for row in READ])
def test_a_time_is_read_in_every_iso_8601_form(parse_time, given, moment):
    assert int(parse_time(given)) == in_ms(moment)


@pytest.mark.parametrize("given", INVALID, ids=repr)
def test_a_text_that_is_no_time_is_invalid(parse_time, given):
    assert parse_time(given) is None


WRITTEN = [
    (0, "1970-01-01T00:00:00.0000000Z"),
    (1, "1970-01-01T00:00:00.0010000Z"),
    (in_ms(datetime(2025, 4, 3, 8, 15, 30, 123000, tzinfo=UTC)), "2025-04-03T08:15:30.1230000Z"),
    (in_ms(datetime(2024, 2, 29, 23, 59, 59, 999000, tzinfo=UTC)), "2024-02-29T23:59:59.9990000Z"),
    (in_ms(datetime(2100, 3, 1, tzinfo=UTC)), "2100-03-01T00:00:00.0000000Z"),
]


@pytest.mark.parametrize(("ms", "text"), WRITTEN, ids=[row[1] for row in WRITTEN])
def test_times_are_written_with_seven_digits_and_a_z(time_text, ms, text):
    assert time_text(ms) == text


def test_every_day_of_a_century_and_every_millisecond_is_read_as_it_was_written(redis):
    check = """
    local wrong = {}
    for day = 0, 36525 do
      local ms = 946684800000 + day * 86400000 + (day * 7919) % 86400000
      if times.parse(times.text(ms)) ~= ms then wrong[#wrong + 1] = times.text(ms) end
    end
    for ms = 0, 999 do
      if times.parse(times.text(1763694000000 + ms)) ~= 1763694000000 + ms then wrong[#wrong + 1] = 'ms ' .. ms end
    end
    return wrong
    """
    assert redis.eval(modules("times") + check, 0) == []
