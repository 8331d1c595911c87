"""Messages of databases are shown without the password of the source, and without telling it by a gap."""

from __future__ import annotations

import pytest
from sqlalchemy import exc

from hub.recovery.faults import as_hub_error
from hub.recovery.models import SqlSource


def shown(password, text):
    """Return the sentence of a refusal with this text."""
    url = f"postgresql+asyncpg://hub:{password}@db/orders"
    source = SqlSource(name="jobs", url=url, table="jobs")
    return str(as_hub_error(source, exc.ProgrammingError("SELECT 1", {}, ValueError(text))))


@pytest.mark.parametrize("password", ["p", "a", "password", "authentication", "user", "hub", "orders", "fail"])
def test_a_password_that_is_an_ordinary_word_is_not_masked_in_a_sentence(password):
    text = "password authentication failed for user hub of orders"
    assert shown(password, text).endswith(f": {text}.")


@pytest.mark.parametrize(
    ("password", "text", "masked"),
    [
        ("p", "no pg_hba.conf entry for password=p", "no pg_hba.conf entry for password=***"),
        ("secret", "cannot read 'secret'", "cannot read '***'"),
        ("hunter2", "cannot log in with hunter2 there", "cannot log in with *** there"),
        ("hunter2", "read xhunter2x", "read x***x"),
        ("a.b", "the DSN is hub:a.b@db", "the DSN is hub:***@db"),
    ],
)
def test_a_password_that_a_sentence_quotes_is_masked(password, text, masked):
    assert shown(password, text).endswith(f": {masked}.")
