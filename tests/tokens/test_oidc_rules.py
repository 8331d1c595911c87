"""The rules that turn claims into a user: which rule fits, what it gives, and which files refuse the start."""

from __future__ import annotations

import pytest

from hub.errors import Forbidden, StartRefused
from hub.settings import BadSetting, Settings, load_settings
from hub.tokens.models import user_of
from hub.tokens.oidc import oidc_users
from hub.tokens.oidc.rules import ClaimRules

ISSUER = "https://login.example"


@pytest.fixture
def rules_of(tmp_path):
    def read(text: str) -> ClaimRules:
        (tmp_path / "rules.toml").write_text(text)
        return ClaimRules(tmp_path / "rules.toml", ISSUER)

    return read


@pytest.mark.parametrize(
    ("when", "claims", "fits"),
    [
        ("{}", {}, True),
        ('{ groups = "ml" }', {"groups": ["x", "ml"]}, True),
        ('{ groups = "ml" }', {"groups": "ml"}, True),
        ('{ groups = "ml" }', {"groups": ["mlx", "xml", "ML"]}, False),
        ('{ groups = ["a", "ml"] }', {"groups": ["ml"]}, True),
        ('{ groups = "gpu-*" }', {"groups": ["gpu-eu"]}, True),
        ('{ groups = "g.u" }', {"groups": ["gpu"]}, False),
        ('{ groups = "ml" }', {}, False),
        ('{ groups = "ml" }', {"groups": {"ml": 1}}, False),
        ('{ email = "*@lab.example" }', {"email": "ann@lab.example"}, True),
        ('{ email = "*@lab.example" }', {"email": "ann@lab.example.evil.example"}, False),
        ('{ email = "*@lab.example" }', {"email": "x@evil.example\n@lab.example"}, True),  # one claim, one text
        ("{ email_verified = true }", {"email_verified": True}, True),
        ("{ email_verified = true }", {"email_verified": "true"}, False),
        ("{ email_verified = true }", {"email_verified": 1}, False),
        ("{ level = 1 }", {"level": True}, False),
        ("{ level = [1, 2] }", {"level": 2}, True),
        ('{ "realm_access.roles" = "lend" }', {"realm_access": {"roles": ["lend"]}}, True),
        ('{ "realm_access.roles" = "lend" }', {"realm_access": ["roles"]}, False),
        ('{ "https://x.example/g" = "a" }', {"https://x.example/g": "a"}, True),
        ('{ groups = "ml", email_verified = true }', {"groups": ["ml"]}, False),
    ],
)
def test_a_rule_fits_when_each_of_its_conditions_holds(rules_of, when, claims, fits):
    rules = rules_of(f'[[rules]]\nwhen = {when}\nrole = "viewer"\n')
    if fits:
        assert rules.identity({"sub": "u", **claims}).role == "viewer"
    else:
        with pytest.raises(Forbidden):
            rules.identity({"sub": "u", **claims})


def test_the_first_rule_that_fits_decides_alone(rules_of):
    rules = rules_of(
        '[[rules]]\nwhen = { groups = "a" }\nscopes = ["read"]\n'
        '[[rules]]\nwhen = { groups = ["a", "b"] }\nrole = "admin"\nteam_claim = "department"\nuser = "email"\n'
        'rooms = ["lab"]\nlabels = ["gpu:*"]\nmax_priority = 10\n'
    )
    first = rules.identity({"sub": "u", "groups": ["b", "a"]})
    assert (first.holder.scopes, first.holder.superuser, first.role) == (frozenset({"read"}), False, "")
    second = rules.identity({"sub": "u", "groups": "b", "department": "ml", "email": "b@x"})
    assert (second.holder.name, second.holder.superuser, second.holder.rooms) == ("b@x", True, frozenset({"lab"}))
    assert (second.role, second.holder.team) == ("admin", "ml")
    assert (second.holder.labels, second.holder.max_priority) == (("gpu:*",), 10)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "ann", "email": "a@x"}, "ann"),
        ({"preferred_username": " ann\n", "email": "a@x"}, "a@x"),
        ({"preferred_username": 7}, "u"),
        ({"sub": "\x00", "email": ["e@x", "f@x"]}, "e@x"),
        ({"sub": "\x00"}, user_of("\x00")),
    ],
)
def test_a_user_is_named_by_the_first_claim_that_can_be_a_name(rules_of, claims, name):
    assert rules_of("[[rules]]\nwhen = {}\n").identity({"sub": "u", **claims}).holder.name == name


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", " has 0 rules: it must have 1 to 1000 [[rules]]."),
        ("[[rules]]\nwhen = {\n", " is no TOML (at line 2, column 9)."),
        ("[[rule]]\nwhen = {}\n", ": 'rule' means nothing at the top; write one [[rules]] per rule."),
        ("# x\n\n[[rules]]\nrole = 'viewer'\n", ", line 3: when is missing: {} stands for every user of the issuer."),
        ("[[rules]]\nwhen = 'x'\n", ", line 2: when must be a table of claims"),
        ("[[rules]]\nwhen = { a = [] }\n", ", line 2: when takes a text"),
        ("[[rules]]\nwhen = {}\n[[rules]]\nwhen = {}\nrole = 'boss'\n", ", line 5: role must be one of viewer, "),
        ("[[rules]]\nwhen = {}\nscopes = ['all']\n", ", line 3: scopes must be a list of some of"),
        ("[[rules]]\nwhen = {}\n\nmax_priority = 101\n", ", line 4: max_priority must be a whole number"),
        ("[[rules]]\nwhen = {}\nmax_priority = true\n", ", line 3: max_priority must be a whole number"),
        ("[[rules]]\nwhen = {}\nlabels = []\n", ", line 3: labels must be a list of 1 to 100 patterns"),
        ("[[rules]]\nwhen = {}\nteam = 'a'\nteam_claim = 'b'\n", ", line 4: team_claim stands beside team"),
        ("[[rules]]\nwhen = {}\ncolour = 'red'\n", ", line 3: 'colour' is no field of a rule; there are when, "),
        ("[[ rules ]]\n[rules.when]\ngroups = 1.5\n", ", line 2: when takes a text"),
    ],
)
def test_a_wrong_file_refuses_the_start_with_its_line_in_one_sentence(rules_of, tmp_path, text, why):
    with pytest.raises(StartRefused) as refused:
        rules_of(text)
    said = str(refused.value)
    assert said.startswith(f"HUB_OIDC_RULES_FILE={tmp_path / 'rules.toml'}{why}"), said
    assert said.endswith(".")


def test_a_file_that_is_not_there_refuses_the_start(tmp_path):
    with pytest.raises(StartRefused, match="cannot be read: No such file"):
        ClaimRules(tmp_path / "none.toml", ISSUER)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"oidc_issuer": ISSUER}, "HUB_OIDC_CLIENT_ID is not"),
        ({"oidc_issuer": ISSUER, "oidc_client_id": "x"}, "HUB_OIDC_RULES_FILE is not"),
        ({"oidc_audience": "x"}, "HUB_OIDC_AUDIENCE is set and HUB_OIDC_ISSUER is not"),
    ],
)
def test_settings_of_the_issuer_stand_together(given, why):
    with pytest.raises(BadSetting, match=why):
        Settings(**given).refuse_oidc_in_part()


@pytest.mark.parametrize(
    "url",
    ["login.example", "http://login.example", "https://login.example?x=1", "https://a@b", "https://x#y", "https://"],
)
def test_an_issuer_without_tls_is_refused(url):
    with pytest.raises(BadSetting, match=r"HUB_OIDC_ISSUER=.*is no https URL"):
        load_settings({"HUB_OIDC_ISSUER": url})


def test_without_an_issuer_there_are_no_users_of_one():
    assert oidc_users(Settings(), lambda: 0.0) is None


def test_without_the_extra_the_start_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "hub.tokens.oidc.users", None)
    with pytest.raises(StartRefused, match=r"pip install 'capacity-hub\[oidc\]'"):
        oidc_users(Settings(oidc_issuer=ISSUER), lambda: 0.0)
