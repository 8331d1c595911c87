"""`hub login` by a code for a browser, the file that keeps the token, and the commands that show it."""

from __future__ import annotations

import json
import signal
import stat
import time

import pytest

from hub.cli import kept_logins
from tests.cli.command import Command, register
from tests.issuer import AUDIENCE, CLIENT, Issuer
from tests.world import wait_until

RULES = """
[[rules]]
when = { groups = "ml" }
role = "viewer"
"""


@pytest.fixture
def issuer():
    with Issuer() as found:
        yield found


@pytest.fixture
def hub(start_hub, issuer, tmp_path):
    (tmp_path / "rules.toml").write_text(RULES)
    return start_hub(
        HUB_OIDC_ISSUER=issuer.url, HUB_OIDC_CLIENT_ID=CLIENT, HUB_OIDC_AUDIENCE=AUDIENCE,
        HUB_OIDC_RULES_FILE=str(tmp_path / "rules.toml"), HUB_ANONYMOUS_READS="false",
    )  # fmt: skip


@pytest.fixture
def command(hub, tmp_path):
    made = Command(None, tmp_path)
    made.environment |= {"HUB_URL": hub.url, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    yield made
    made.close()


@pytest.fixture
def kept(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return kept_logins.path_of(hub.url)


def polls(issuer: Issuer, grant: str = "urn:ietf:params:oauth:grant-type:device_code") -> int:
    return sum(form.get("grant_type") == grant for form in issuer.forms)


def test_a_login_is_kept_for_its_hub_alone_and_shown_until_the_logout(command, issuer, hub, kept):
    refused = command("jobs")
    assert refused.returncode == 1
    issuer.device_answers = ["authorization_pending", "authorization_pending"]
    done = command("login")
    assert (done.returncode, done.stdout) == (0, f"You are logged in at {hub.url}.\n"), done.stderr
    assert f"open {issuer.url}/activate and check or enter the code ABCD-EFGH" in done.stderr
    assert polls(issuer) == 3
    begun = issuer.forms[0]
    assert begun == {"client_id": CLIENT, "scope": "openid profile email offline_access", "audience": AUDIENCE}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert command("jobs").returncode == 0
    assert command("jobs", HUB_TOKEN="another").returncode == 1
    assert command("jobs", "--token", command.kept("another")).returncode == 1
    elsewhere = command("jobs", HUB_URL="http://127.0.0.1:9")
    assert "127.0.0.1:9" in elsewhere.stderr
    assert command("logout").stdout == "You are logged out.\n"
    assert not kept.exists()
    assert command("jobs").returncode == 1
    assert command("logout").stdout == "There was no login at this hub.\n"


def test_a_file_that_others_can_read_is_not_used(command, kept):
    assert command("login").returncode == 0
    kept.chmod(0o644)
    refused = command("jobs")
    assert (refused.returncode, "chmod 600" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("access_denied", "The login was refused in the browser."),
        ("expired_token", "The login took too long."),
        ("invalid_grant", "The login failed: the issuer answered 'invalid_grant'."),
    ],
)
def test_a_login_that_is_denied_is_one_sentence_and_keeps_nothing(command, issuer, kept, answer, sentence):
    issuer.device_answers = ["authorization_pending", answer]
    done = command("login")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"hub: {sentence}")
    assert not kept.exists()


def test_slow_down_makes_the_polls_slower(command, issuer):
    issuer.device_answers = ["authorization_pending", "slow_down"]
    began = time.monotonic()
    assert command("login").returncode == 0
    assert time.monotonic() - began >= 5
    assert polls(issuer) == 3


def test_a_user_without_a_rule_hears_of_it_at_the_login(command, issuer, kept):
    issuer.user["groups"] = ["sales"]
    done = command("login")
    assert done.returncode == 1
    assert "You are logged in, but not for this hub: No rule of this hub" in done.stderr
    assert not kept.exists()


def test_a_hub_without_an_issuer_says_so(live_hub, command):
    done = command("login", HUB_URL=live_hub.url)
    assert (done.returncode, done.stderr) == (1, "hub: This hub knows no issuer: HUB_OIDC_ISSUER is not set.\n")


def test_an_issuer_that_is_away_is_one_sentence(command, issuer):
    issuer.stop()
    done = command("login")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert f"The issuer {issuer.url} does not answer" in done.stderr


def test_a_token_near_its_end_is_refreshed_once_by_commands_that_run_at_the_same_time(command, issuer, kept):
    issuer.life_s = 30.0  # within the minute in which a token is refreshed
    assert command("login").returncode == 0
    issuer.life_s = 3600.0
    before = json.loads(kept.read_text())
    running = [command.start("jobs") for _ in range(3)]
    assert [each.end() for each in running] == [0, 0, 0]
    after = json.loads(kept.read_text())
    assert polls(issuer, "refresh_token") == 1
    assert (after["token"] != before["token"], after["refresh"] != before["refresh"]) == (True, True)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_login_that_can_no_more_be_refreshed_is_over(command, issuer, kept, hub):
    assert command("login").returncode == 0
    facts = json.loads(kept.read_text())
    kept.write_text(json.dumps({**facts, "until_s": time.time() - 1, "refresh": "used"}))
    done = command("jobs")
    assert (done.returncode, done.stderr) == (1, f"hub: The login at {hub.url} is over; run: hub login.\n")
    assert command("logout").returncode == 0  # asks nobody for anything


def test_a_token_that_still_holds_is_shown_while_the_issuer_is_away(command, issuer, kept):
    assert command("login").returncode == 0
    assert command("jobs").returncode == 0
    facts = json.loads(kept.read_text())
    kept.write_text(json.dumps({**facts, "until_s": time.time() + 40}))
    issuer.stop()
    assert command("jobs").returncode == 0


def test_a_command_that_runs_for_long_shows_the_token_anew(command, issuer, kept, hub, monkeypatch):
    assert command("login").returncode == 0
    renewed = kept_logins.find(hub.url)
    first = renewed()
    assert renewed() == first
    facts = json.loads(kept.read_text())
    kept.write_text(json.dumps({**facts, "until_s": time.time() + 30}))
    renewed = kept_logins.find(hub.url)
    second = renewed()
    assert second != first
    assert kept_logins.read(hub.url).token == second


def test_a_login_is_broken_off_by_ctrl_c_without_a_file(command, issuer, kept):
    issuer.device_answers = ["authorization_pending"] * 10_000
    running = command.start("login")
    wait_until(lambda: polls(issuer) > 2)
    running.signal(signal.SIGINT)
    assert running.end() != 0
    assert not kept.exists()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_wrong_rules_refuse_the_start_of_a_hub_in_one_sentence_with_the_line(
    lone_command, redis_server, tmp_path, workers
):
    rules = tmp_path / "rules.toml"
    rules.write_text("# who may what\n[[rules]]\nwhen = {}\nrole = 'boss'\n")
    done = lone_command(
        "serve", HUB_OIDC_ISSUER="https://login.example", HUB_OIDC_CLIENT_ID=CLIENT, HUB_OIDC_RULES_FILE=str(rules),
        HUB_REDIS_URL=redis_server.url, HUB_PORT="0", HUB_WORKERS=workers,
    )  # fmt: skip
    sentence = f"HUB_OIDC_RULES_FILE={rules}, line 4: role must be one of viewer, operator, admin; "
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if "line 4" in line] == [
        f"hub: {sentence}leave it out for users who have no console."
    ], done.stderr


def test_a_slot_is_borrowed_in_the_name_of_the_login(command, hub):
    register(hub, "n1", slots=[{"labelKey": "gpu:a100", "slotId": each} for each in ("s1", "s2")])
    assert command("login").returncode == 0
    done = command("borrow", "gpu:a100", "--", "true")
    assert done.returncode == 0, done.stderr
    held = command("borrow", "gpu:a100", "--json", "--detach")
    assert held.returncode == 0, held.stderr
    shown = command("leases", "--json", HUB_ADMIN_SECRET=hub.admin_secret)
    assert '"user": "ann"' in shown.stdout, shown.stdout
    assert command("return", json.loads(held.stdout)["slotId"]).returncode == 0
