"""The notes the races are judged by: half of one, read or left behind, costs no other."""

from __future__ import annotations

import pytest

from tests.notes import Notes, whole_notes


@pytest.mark.parametrize("part", [0, 1, 2, 10, -2])
def test_an_incomplete_note_is_ignored_and_hides_no_other(tmp_path, part):
    path = tmp_path / "notes"
    assert whole_notes(path) == []
    Notes(path).write(who="first")
    before = path.stat().st_size
    Notes(path).write(who="killed while it writes")
    with path.open("r+b") as file:
        file.truncate((before if part >= 0 else path.stat().st_size) + part)
    assert whole_notes(path) == [{"who": "first"}]
    Notes(path).write(who="last")
    assert whole_notes(path) == [{"who": "first"}, {"who": "last"}]
