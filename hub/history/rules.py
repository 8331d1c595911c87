"""The rule behind each event: scripts write a short code, people read a sentence that names rule and setting."""

from __future__ import annotations

# event, or event and code -> the sentence
_RULES = {
    "node.registered": "It was not on the books; it stays there while it beats at least every HUB_NODE_TIMEOUT.",
    "node.left": "It said goodbye, or an operator removed it: its slots are withdrawn and its leases have ended.",
    "node.expired": "Silent for longer than HUB_NODE_TIMEOUT on the hub clock, and expiry is on, so it was removed.",
    "node.superseded": "A newer process registered under its id: that one is the node now, and the one before is told "
    "to stop with its next beat; what it still says changes nothing.",
    "node.suspect": "Silent for half of HUB_NODE_TIMEOUT on the hub clock: its slots are held back until it beats.",
    "node.back": "It beat again, so its slots are lent again.",
    "node.draining": "An operator drains it: nothing more of it is lent, and what is lent stays with its borrowers.",
    "node.cordoned": "An operator cordoned it for this reason: nothing more of it is lent, what is lent stays.",
    "node.undrained": "An operator ended its drain or its cordon, so it lends again.",
    "slot.published": "Its node offers it.",
    "slot.adopted": "Another program put it into the list of its pool, and the hub took it in.",
    "slot.withdrawn": "It is no longer offered.",
    "slot.withdrawn asked": "Its node took it off offer.",
    "slot.withdrawn node": "Its node left or expired.",
    "slot.withdrawn removed": "Its node had taken its item out of the list while it was lent.",
    "slot.withdrawn unknown": "Its node is not on the books, so nobody would notice its death; hub doctor took it off.",
    "slot.withdrawn missing": "Another program took its item out of the list of its pool.",
    "slot.withdrawn unreported": "Its node has not named it since the store was lost, so it is not lent on.",
    "slot.withdrawn claimed": "Its id names another node, which offers it as its own, so that one gets it.",
    "slot.conflict": "Two nodes offer a slot of this id.",
    "slot.conflict taken": "Another node offers a slot of this id: who has it keeps it.",
    "slot.conflict reserved": "Another node offers a slot whose id, of the form NODE-label-number, names this one: "
    "it was refused.",
    "slot.conflict claimed": "Another node had a slot whose id, of the form NODE-label-number, names this one, which "
    "gets it: at once when it is free, else when its lease ends.",
    "grant.lent": "It was free longest in the best pool for the label, which was below its cap with nobody before.",
    "grant.handed": "It became free, and this ticket was first in the queue of the label whose turn it was.",
    "grant.adopted": "The hub learned of a lease that it had not made itself.",
    "grant.adopted reported": "The store had lost the lease, and the node of the slot reported it.",
    "grant.adopted recalled": "The store had lost the lease, and the hub that made it brought it back.",
    "grant.adopted foreign": "Another program wrote the session, or moved the item to the lent ones.",
    "grant.returned": "It was given back.",
    "grant.returned removed": "It was given back, and its node had already taken the slot away.",
    "grant.lapsed lapsed": "Nobody renewed the lease before it was over on the hub clock.",
    "grant.lapsed deleted": "Somebody deleted the footprint of the lease before its time, which ends the lease.",
    "grant.lapsed idle": "It was not used within its idle rule (its own, or HUB_IDLE_TIMEOUT_SECONDS).",
    "grant.lapsed stray": "The session named no label, so nobody could have returned it.",
    "grant.ended node": "The node of the slot left or expired.",
    "grant.ended withdrawn": "The node of the slot took it off offer while it was lent.",
    "grant.ended deadline": "The deadline of the drain of its node was over (hub drain --deadline).",
    "grant.ended operator": "An operator ended it; who held it was told.",
    "grant.ended doctor": "It was lent without a session, so nobody could prove that it is his; hub doctor ended that.",
    "grant.undone": "The caller was gone before the answer reached it, so nobody holds it.",
    "grant.undone hub": "The hub that was to deliver it is gone, so nobody holds it.",
    "ticket.waiting": "No slot was free for it, or its label is at its cap, so it stands in the queue of its label.",
    "ticket.waiting again": "Somebody attends it again, so it is back in the queue at its old place.",
    "ticket.away": "Nobody attends it; with an Idempotency-Key it keeps its place for 60 s and is passed over.",
    "ticket.elsewhere": "It had waited for longer than the bound of spill-over, and that realm had a slot to spare.",
    "ticket.left": "It no longer waits.",
    "ticket.left timeout": "The time it may wait was over (HUB_BORROW_QUEUE_TIMEOUT_SECONDS, or what it asked for).",
    "ticket.left gone": "Its caller hung up; without an Idempotency-Key it cannot come back.",
    "ticket.left forgotten": "Nobody came back for it within 60 s.",
    "ticket.left stopping": "The hub that attended it was stopping; without an Idempotency-Key it cannot come back.",
    "ticket.left hub": "The hub that attended it is gone; without an Idempotency-Key it cannot come back.",
    "ticket.left cancelled": "It was given up by a caller that knows it.",
    "cap.set": "An operator set how many leases of the label may be live at once, for all hubs.",
    "cap.set cleared": "An operator cleared the cap; HUB_BORROW_CONCURRENCY_CAPS and its default hold again.",
    "pool.maintenance": "An operator restarts the pool: nothing of it is lent until its slots are replaced.",
    "pool.maintenance over": "Its slots were replaced, or two minutes were over, so it lends again.",
    "worker.gone": "It was removed: what it had claimed fails or is tried again, and its providers are gone.",
    "worker.gone deleted": "Its user, or a superuser, removed it: what it had claimed fails or is tried again.",
    "worker.gone silent": "Silent for longer than HUB_WORKER_TIMEOUT_SECONDS on the hub clock, so it was removed: what "
    "it had claimed fails or is tried again.",
    "worker.gone hung up": "Its last connection was lost and it was not back in HUB_SIO_DISCONNECT_GRACE_SECONDS: what "
    "it had claimed fails or is tried again.",
    "worker.gone doctor": "hub doctor removed what was left of it, or what could not be read.",
    "job.orphaned": "No worker serves it and no task waits for it, so it was soft-deleted; whoever registers it again "
    "takes it back.",
    "task.retried": "It failed and has another attempt, so it waits again; the pause before it doubles with each one.",
    "task.unstuck": "A worker claimed it and did not start it within the threshold of the recovery source.",
    "task.unstuck queued": "A worker claimed it and did not start it within the threshold of the recovery source, so "
    "it waits again at its old place.",
    "task.unstuck failed": "A worker claimed it and did not start it, once more often than max_attempts of the "
    "recovery source allows, so it failed.",
    "schedule.made": "Somebody made it: it submits a task to its job each time it is due.",
    "schedule.changed": "Somebody changed what it submits, when, or how.",
    "schedule.changed paused": "Somebody paused it: it submits nothing until it is resumed.",
    "schedule.changed resumed": "Somebody resumed it; what was due while it was paused is not caught up.",
    "schedule.changed readable": "It can be read again, and is fired as before.",
    "schedule.broken": "It cannot be read or fired: it is put aside, and looked at again every ten minutes.",
    "schedule.removed": "Somebody removed it; the tasks it has made stay.",
    "task.scheduled": "Its schedule was due.",
    "task.recalled": "The store came back without its last seconds; a hub remembered that the task had ended, "
    "failed or been given back, and said so again.",
    "worker.superseded": "A newer process registered with its id: that one is the worker now, and the one before is "
    "told so with its next beat or claim.",
    "task.unheld": "Its worker beat for half a HUB_WORKER_TIMEOUT_SECONDS without naming it among what it holds: it "
    "was tried again, or failed.",
    "task.held": "The store had lost its claim; its worker said that it runs it, and has it again.",
    "brake.engaged": "More than HUB_SWEEPER_BRAKE_PERCENT of the nodes are silent at once: none goes for one "
    "HUB_NODE_TIMEOUT, nor while nobody at all is heard, then only some at a time.",
    "brake.released": "An operator released the brake: all that are silent are removed.",
    "brake.ended": "Not so many nodes are silent any more, so nothing is held back.",
    "brake.engaged workers": "More than HUB_SWEEPER_BRAKE_PERCENT of the workers are silent at once, and few of the "
    "others are heard: none goes for one "
    "HUB_WORKER_TIMEOUT_SECONDS, then only some at a time.",
    "brake.released workers": "An operator released the brake: all workers that are silent are removed.",
    "brake.ended workers": "Not so many workers are silent any more, so nothing is held back.",
    "sweep.switched": "An operator switched for all hubs whether silent nodes are removed (hub expire).",
    "sweep.switched cleared": "An operator cleared the switch of expiry; HUB_SWEEPER_EXPIRE holds again.",
    "sweep.node": "The pass over silent nodes found something to do.",
    "sweep.lease": "The pass over leases found something to do.",
    "sweep.worker": "The pass over silent workers, and over tasks that nobody would end, found something to do.",
    "sweep.record": "The pass over stuck records of a source brought some back, or failed.",
}


def rule(what: str, code: str = "") -> str:
    """The sentence for an event and its code; for a code nobody knows that of the event, else nothing."""
    return _RULES.get(f"{what} {code}") or _RULES.get(what, "")
