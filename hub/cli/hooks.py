"""`hub hook`: adds, shows, tests, pauses, resumes and removes hooks. A secret is made here, as that of a token is."""

from __future__ import annotations

from typing import Literal

from typer import Option

from hub.cli import output
from hub.cli.answers import Columns, CommandAnswer, Listing, facts, time_of
from hub.cli.command import Group, Work
from hub.cli.connection import HubApi, Row
from hub.cli.inputs import given
from hub.cli.options import Input
from hub.hooks.messages import TYPES, new_secret

app = Group(help="Tell other programs, or a chat, of leases, tickets, nodes, slots and tasks.")
_HOOK = Input("ID").argument("The id of the hook, as `hub hook ls` shows it.")


@app.add("add", "superuser")
def add(
    hub: HubApi,
    address: str = Input("ADDRESS").argument("Where messages are posted."),
    on: str = Input("TYPES").option(f"Types of messages, with commas: {', '.join(TYPES)}.", "--on", default=...),
    label: str | None = Input("LABEL").option("Only what is about such a label, such as 'gpu:*'."),
    user: str | None = Input("NAME").option("Only what is about leases of this user."),
    form: Literal["json", "slack", "teams", "plain"] = Option("json", "--format", help="The form of messages."),
) -> Work:
    """Add a hook, and print the secret that signs its messages. The secret is not shown again."""
    kinds = [kind.strip() for kind in on.split(",") if kind.strip()]
    body = {
        "url": address,
        "on": kinds,
        "format": form,
        "secret": new_secret(),
        **given({"label": label, "user": user}),
    }
    return _add(hub, body)


@app.add("ls", "superuser")
async def list_hooks(hub: HubApi) -> CommandAnswer:
    """Show the hooks, newest first, without their secrets."""
    page = await hub.get("admin", "hooks")
    return _HOOKS.answer((page["total"], page["hooks"]))


@app.add("show", "superuser")
async def show(hub: HubApi, hook: str = _HOOK) -> CommandAnswer:
    """Show a hook, and what came of its last message."""
    return facts(await hub.get("admin", "hooks", hook), _FACTS, only_known=True)


@app.add("test", "superuser")
async def try_out(hub: HubApi, hook: str = _HOOK) -> CommandAnswer:
    """Send a test message now. Exit code 1 when the hook did not take it."""
    answer = await hub.ask("POST", "admin", "hooks", hook, "test")
    taken = bool(answer.get("delivered"))
    said = "it took the test message" if taken else f"not delivered: {output.one_line(str(answer.get('said')))}"
    return CommandAnswer(answer, f"{hook}: {said}.", code=0 if taken else 1)


@app.add("pause", "superuser")
async def pause(hub: HubApi, hook: str = _HOOK) -> CommandAnswer:
    """Pause a hook: its messages wait until it is resumed."""
    return CommandAnswer(await hub.ask("POST", "admin", "hooks", hook, "pause"), f"{hook} is paused.")


@app.add("resume", "superuser")
async def resume(hub: HubApi, hook: str = _HOOK) -> CommandAnswer:
    """Resume a hook; what waits for it is sent now."""
    answer = await hub.ask("POST", "admin", "hooks", hook, "resume")
    return CommandAnswer(answer, f"{hook} is resumed; {output.plural(answer.get('waiting'), 'message')} waited.")


@app.add("rm", "superuser")
async def remove(hub: HubApi, hook: str = _HOOK) -> CommandAnswer:
    """Remove a hook, with the messages that wait for it."""
    await hub.ask("DELETE", "admin", "hooks", hook)
    return CommandAnswer({"id": hook, "deleted": True}, f"{hook} is no hook any more.")


async def _add(hub: HubApi, body: Row) -> CommandAnswer:
    answer = await hub.ask("POST", "admin", "hooks", body=body)  # a repeat of the call adds no second hook

    def show() -> None:
        output.put(body["secret"])
        output.note(f"this secret signs the messages of hook {answer.get('id')}; it is not shown again.")

    return CommandAnswer({**answer, "secret": body["secret"]}, show)


_COLUMNS: Columns = {
    "HOOK": "id", "URL": "url", "ON": lambda hook: " ".join(hook.get("on") or ()), "LABEL": "label", "USER": "user",
    "WAITING": "waiting", "DELIVERED": "delivered", "FAILED": "failed", "PAUSED": "paused",
}  # fmt: skip
_HOOKS = Listing("hooks", _COLUMNS, numbers=("WAITING", "DELIVERED", "FAILED"), expendable=("USER", "FAILED", "LABEL"))
_FACTS: Columns = {
    **_COLUMNS, "FORMAT": "format", "DROPPED": "dropped", "LAST": "last", "LAST AT": time_of("lastAt"),
    "ADDED BY": "addedBy", "ADDED": time_of("addedAt"),
}  # fmt: skip
