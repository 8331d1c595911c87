"""`hub token`: made, listed and revoked, with a hub, straight on Redis, and at a hub without tokens."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import httpx

from hub.tokens.holders import REMEMBERED_S
from tests.cli.command import Command
from tests.world import PATIENCE_S, SLACK_S, HubProcess, wait_until

TOKEN = re.compile(r"hub_[A-Za-z0-9_-]{43}\n")
NO_SECRETS = {"HUB_RUNNER_SECRET": "", "HUB_NODE_SECRET": "", "HUB_ADMIN_SECRET": ""}
NEVER = "00000000-0000-0000-0000-000000000007"


def status(hub: HubProcess, token: str | None = None) -> int:
    """Return the status with which a superuser's route answers a token."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx.get(f"{hub.url}/admin/tokens", headers=headers, timeout=PATIENCE_S).status_code


def test_a_new_token_is_printed_alone_and_only_once(own_hub: HubProcess, own_command: Command):
    done = own_command("token", "create", "--user", "Ann Ö", "--superuser")
    assert done.returncode == 0, done.stderr
    assert TOKEN.fullmatch(done.stdout)
    secret = done.stdout.strip()
    (row,) = own_command.json("token", "ls")["tokens"]
    assert done.stderr == f"hub: this is token {row['id']} of Ann Ö; it is not shown again.\n"
    assert (row["user"], row["superuser"], row["scopes"], row["active"]) == ("Ann Ö", True, None, True)
    assert status(own_hub, secret) == 200
    assert (status(own_hub, secret + "x"), status(own_hub)) == (401, 401)
    for shown in (own_command("token", "ls"), own_command("token", "ls", "--json")):
        assert secret not in shown.stdout + shown.stderr
    assert secret not in own_hub.log()
    assert secret.removeprefix("hub_") not in str([own_hub.redis.dump(key) for key in own_hub.redis.keys("*token*")])


def test_json_shows_every_member_of_a_new_token(own_hub: HubProcess, own_command: Command):
    made = own_command.json(
        "token", "create", "--user", "bob", "--user-id", NEVER, "--scope", "submit", "--scope", "worker",
        "--scope", "submit",
    )  # fmt: skip
    assert TOKEN.fullmatch(made.pop("token") + "\n")
    assert re.fullmatch(r"[0-9a-f]{16}", made["id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z", made["createdAt"])
    rest = {name: made[name] for name in ("user", "userId", "superuser", "active", "scopes")}
    assert rest == {"user": "bob", "userId": NEVER, "superuser": False, "active": True, "scopes": ["worker", "submit"]}
    assert own_command.json("token", "ls") == {"total": 1, "tokens": [made], "inFile": []}
    assert own_command.json("token", "show", made["id"]) == made
    facts = dict(line.split(maxsplit=1) for line in own_command("token", "show", made["id"]).stdout.splitlines())
    assert (facts["TOKEN"], facts["USER"], facts["SCOPES"]) == (made["id"], "bob", "worker submit")
    gone = own_command("token", "show", "nobody")
    assert (gone.returncode, gone.stderr) == (1, "hub: No token has the id 'nobody'.\n")


def test_tokens_of_a_node_and_of_rooms_open_nothing_else(own_hub: HubProcess, own_command: Command):
    node = own_command("token", "create", "--node", "rack-7").stdout.strip()
    bound = own_command("token", "create", "--user", "ann", "--room", "lab", "--room", "a b").stdout.strip()
    shown = {"authorization": f"Bearer {bound}"}
    with httpx.Client(base_url=own_hub.url, timeout=PATIENCE_S) as api:
        for name, status in (("rack-7", 200), ("rack-8", 403)):
            answer = api.post("/node/register", json={"nodeId": name}, headers={"x-hub-secret": node})
            assert answer.status_code == status, answer.text
        for room, status in (("lab", 200), ("a%20b", 200), ("other", 403)):
            assert api.get(f"/v1/joblib/rooms/{room}/tasks", headers=shown).status_code == status
    listed = own_command("token", "ls").stdout
    assert all(word in listed for word in ("rack-7", "in lab", "in a b"))


def test_tokens_are_listed_newest_first_and_those_of_the_file_last(start_hub, tmp_path: Path):
    path = tmp_path / "tokens.toml"
    path.write_text('[[tokens]]\ntoken = "file-secret"\nuser = "carl"\nactive = false\n')
    command = Command(start_hub(HUB_TOKENS_FILE=str(path)), tmp_path)
    assert command("token", "create", "--user", "ann", "--scope", "read").returncode == 0
    assert command("token", "create", "--user", "bob", "--superuser").returncode == 0
    done = command("token", "ls")
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    assert head == ["TOKEN", "USER", "SUPERUSER", "SCOPES", "TEAM", "CREATED", "EXPIRES", "ACTIVE", "KEPT", "IN"]
    assert [(*row[1:4], *row[-2:]) for row in rows] == [
        ("bob", "yes", "all", "yes", "store"), ("ann", "no", "read", "yes", "store"),
        ("carl", "no", "all", "no", "file"),
    ]  # fmt: skip
    assert "file-secret" not in done.stdout
    refused = command("token", "revoke", rows[2][0])
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert "HUB_TOKENS_FILE" in refused.stderr


def test_a_borrow_token_is_made_with_its_terms(own_hub: HubProcess, own_command: Command):
    terms = ("--scope", "borrow", "--label", "gpu:*", "--label", "cpu:big", "--team", "ml", "--max-priority", "10")
    made = own_command.json("token", "create", "--user", "ada", *terms, "--expires", "90d")
    assert (made["scopes"], made["labels"], made["team"], made["maxPriority"]) == (
        ["borrow"], ["gpu:*", "cpu:big"], "ml", 10,
    )  # fmt: skip
    lives = datetime.fromisoformat(made["validUntil"]) - datetime.fromisoformat(made["createdAt"])
    assert round(lives.total_seconds()) == 90 * 86_400
    for option, text in (("--label", "gpu:"), ("--expires", "soon"), ("--max-priority", "101"), ("--team", "")):
        refused = own_command("token", "create", "--user", "ada", option, text)
        assert (refused.returncode, refused.stdout) == (2, ""), refused.stderr


def test_a_revoked_token_is_refused(own_hub: HubProcess, own_command: Command):
    assert own_command("token", "ls").stdout == "There are no tokens.\n"
    made = own_command.json("token", "create", "--user", "ann", "--superuser")
    assert status(own_hub, made["token"]) == 200
    done = own_command("token", "revoke", made["id"])
    assert (done.returncode, done.stdout) == (0, f"{made['id']} is revoked.\n")
    assert done.stderr.startswith("hub: no token is left")
    wait_until(lambda: status(own_hub, made["token"]) == 401, REMEMBERED_S + SLACK_S)
    again = own_command("token", "revoke", made["id"])
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == f"hub: No token has the id '{made['id']}'.\n"


def test_where_no_hub_listens_token_commands_work_straight_on_redis(start_hub, redis_server, lone_command: Command):
    environment = {"HUB_REDIS_URL": redis_server.url}
    done = [lone_command("token", "create", "--user", user, "--superuser", **environment) for user in ("ann", "bob")]
    assert [(each.returncode, bool(TOKEN.fullmatch(each.stdout))) for each in done] == [(0, True)] * 2, done
    assert "working straight on Redis" in done[0].stderr
    hub = start_hub()
    assert [status(hub, each.stdout.strip()) for each in done] == [200, 200]
    listed = lone_command("token", "ls", **environment)
    assert [line.split()[1] for line in listed.stdout.splitlines()] == ["USER", "bob", "ann"]


def test_the_first_token_closes_an_open_hub_but_not_commands_on_its_redis(start_hub, redis_server, tmp_path: Path):
    hub = start_hub(**NO_SECRETS)
    command = Command(hub, tmp_path)
    assert status(hub) == 200
    first = command("token", "create", "--user", "root", "--superuser")
    assert first.returncode == 0, first.stderr
    assert [line for line in first.stderr.splitlines() if "first token of a hub without secrets" in line], first.stderr
    assert status(hub) == 401
    refused = command("token", "create", "--user", "eve")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    with_token = command("token", "create", "--user", "ann", "--secret", command.kept(first.stdout.strip()))
    assert TOKEN.fullmatch(with_token.stdout)
    assert "first token" not in with_token.stderr
    assert command("hook", "ls", HUB_TOKEN=first.stdout.strip()).stdout == "No hooks.\n"
    assert len(command("token", "ls", HUB_TOKEN=first.stdout.strip()).stdout.splitlines()) == 3
    for words in (("token", "ls"), ("hook", "ls"), ("token", "create", "--user", "eve")):
        refused = command(*words, HUB_TOKEN=with_token.stdout.strip())
        assert (refused.returncode, refused.stdout, refused.stderr) == (1, "", "hub: This is for superusers.\n")
    poor = command("token", "ls", "--secret", command.kept(with_token.stdout.strip()))
    assert (poor.returncode, poor.stdout, poor.stderr.count("\n")) == (1, "", 1)
    wrong = command("token", "ls", "--secret", command.kept("wrong"), HUB_REDIS_URL=redis_server.url)
    assert (wrong.returncode, wrong.stdout, wrong.stderr.count("\n")) == (1, "", 1)
    poor = {"HUB_REDIS_URL": redis_server.url, "HUB_TOKEN": with_token.stdout.strip()}
    on_redis = command("token", "create", "--user", "bob", **poor)
    assert TOKEN.fullmatch(on_redis.stdout), on_redis.stderr
    assert "working straight on Redis" in on_redis.stderr
    assert "first token" not in on_redis.stderr
    rows = command.json("token", "ls", "--secret", command.kept(first.stdout.strip()))["tokens"]
    assert [row["user"] for row in rows] == ["bob", "ann", "root"]
    done = [command("token", "revoke", row["id"], HUB_REDIS_URL=redis_server.url) for row in rows]
    assert ["no token is left" in each.stderr for each in done] == [False, False, True]
    wait_until(lambda: status(hub) == 200, REMEMBERED_S + SLACK_S)


def test_an_unusable_tokens_file_stops_the_start_with_one_sentence(redis_server, lone_command: Command):
    path = lone_command.home / "tokens.toml"
    path.write_text('[[tokens]]\ntoken = "s3cr3t"\nuser = "ann"\nsuperuser = "yes"\n')
    environment = {"HUB_REDIS_URL": redis_server.url, "HUB_TOKENS_FILE": str(path), "LOG_LEVEL": "ERROR"}
    for words in (("serve", "--port", "0"), ("token", "ls")):
        done = lone_command(*words, **environment)
        assert (done.returncode, done.stdout) == (1, ""), done
        last = done.stderr.splitlines()[-1]
        assert last == f"hub: HUB_TOKENS_FILE={path}, entry 1: superuser must be true or false."
        assert "s3cr3t" not in done.stderr
        assert "Traceback" not in done.stderr
