"""The rule behind each event: a script writes a short code, which stands for a sentence with rule and setting."""

from __future__ import annotations

# "event" or "event code" -> the sentence of the rule
_RULES = {
    "node.registered": "It was not registered yet. It stays registered while it sends a heartbeat at least every "
    "HUB_NODE_TIMEOUT.",
    "node.left": "It left, or an operator removed it: its slots are withdrawn and its leases have ended.",
    "node.expired": "Silent for longer than HUB_NODE_TIMEOUT on the hub clock, and expiry is on, so it was removed.",
    "node.superseded": "A newer process registered under its id and is the node now. The older process is told to stop "
    "with its next heartbeat, and its calls change nothing.",
    "node.suspect": "Silent for half of HUB_NODE_TIMEOUT on the hub clock: its slots are held back until its next "
    "heartbeat.",
    "node.back": "It sent a heartbeat again, so its slots are lent again.",
    "node.draining": "An operator drains it: its slots are not lent any more, and its leases go on.",
    "node.cordoned": "An operator cordoned it for this reason: its slots are not lent any more, and its leases go on.",
    "node.undrained": "An operator ended its drain or its cordon, so it lends again.",
    "slot.published": "Its node offers it.",
    "slot.adopted": "Another program put it into the list of its pool, and the hub took it in.",
    "slot.fresh": "Its node has made it fresh after its last lease, so it is lent again.",
    "slot.unwell": "It is held because it is unwell: it is not lent, and a lease of it goes on.",
    "slot.unwell node": "Its node says that it is unwell, for this reason: it is not lent, and a lease of it goes on.",
    "slot.unwell operator": "An operator holds it, for this reason: it is not lent, and a lease of it goes on.",
    "slot.well": "A hold of it has ended; it is lent again unless another one holds it.",
    "slot.well node": "Its node says that it is well; it is lent again unless an operator holds it.",
    "slot.well operator": "An operator has released it; it is lent again unless its node holds it.",
    "slot.withdrawn": "It is no longer offered.",
    "slot.withdrawn asked": "Its node took it off offer.",
    "slot.withdrawn node": "Its node left or expired.",
    "slot.withdrawn removed": "Its node had taken its item out of the list while it was lent.",
    "slot.withdrawn unknown": "Its node is not registered, so its death would not be noticed; hub doctor withdrew it.",
    "slot.withdrawn missing": "Another program took its item out of the list of its pool.",
    "slot.withdrawn unreported": "Its node has not named it since the store was lost, so it is not lent again.",
    "slot.withdrawn claimed": "Its id names another node, which offers it too, so the slot is now of that node.",
    "slot.conflict": "Two nodes offer a slot of this id.",
    "slot.conflict taken": "Another node offers a slot of this id. The node that had it first keeps it.",
    "slot.conflict reserved": "Another node offers a slot whose id, of the form NODE-label-number, names this node. "
    "The other node was refused.",
    "slot.conflict claimed": "Another node had a slot whose id, of the form NODE-label-number, names this node. This "
    "node gets the slot: at once when it is free, otherwise when its lease ends.",
    "grant.lent": "Best-matching pool, longest-free slot that suits or is preferred; the cap was not reached, and no "
    "ticket waited for it.",
    "grant.handed": "The slot became free, and this ticket was the first that it suits in the queue of the label whose "
    "turn it was.",
    "grant.adopted": "The hub learned of a lease that it had not made itself.",
    "grant.adopted reported": "The store had lost the lease, and the node of the slot reported it.",
    "grant.adopted recalled": "The store had lost the lease, and the hub that made it restored it.",
    "grant.adopted foreign": "Another program wrote the lease record, or moved the slot to the lent ones.",
    "grant.returned": "The borrower returned the slot.",
    "grant.returned removed": "The borrower returned the slot, and its node had already withdrawn it.",
    "grant.lapsed lapsed": "The lease was not renewed before it was over on the hub clock.",
    "grant.lapsed deleted": "Another program deleted the footprint of the lease before its time, which ends the lease.",
    "grant.lapsed idle": "The slot was not used for its idle time (its own, that of its pool, or "
    "HUB_IDLE_TIMEOUT_SECONDS), or another program deleted the footprint of that.",
    "grant.ending": "A rule of its pool is about to end the lease, and its holder is told.",
    "grant.ending max-hold": "The longest hold of its pool is about to be over, and the holder of the lease is told.",
    "grant.ending idle": "The slot is not used, and the holder of the lease is told before its idle rule ends it.",
    "grant.ending rule-change": "The rule of its pool has become stricter, and the holder of the lease is told first.",
    "grant.ending recall": "A team below its guarantee waits, and the team of the holder has more than its own: the "
    "lease lasts no longer than once more its length, renewed or not, and its holder is told.",
    "grant.ended max-hold": "The longest hold of its pool was over (hub pool rules), renewed or not.",
    "grant.ended recall": "It was recalled for a team below its guarantee, and its holder had been told.",
    "grant.lapsed stray": "The lease record named no label, so it could not have been returned.",
    "grant.ended node": "The node of the slot left or expired.",
    "grant.ended withdrawn": "The node of the slot withdrew it while it was lent.",
    "grant.ended deadline": "The deadline of the drain of its node was over (hub drain --deadline).",
    "grant.ended operator": "An operator ended the lease, and the holder was told.",
    "grant.ended bundle": "Another lease of its bundle was lost, and they were held together, so it ended too.",
    "grant.ended doctor": "The slot was lent without a lease record, so no holder could prove its right; hub doctor "
    "ended the lease.",
    "grant.undone": "The caller was gone before the answer reached it, so the lease was undone.",
    "grant.undone hub": "The hub that was to deliver the answer is gone, so the lease was undone.",
    "ticket.waiting": "No slot is free for it, or its label is at its cap or its team at its ceiling, so it waits in "
    "the queue of its label; a bundle waits in the line of bundles.",
    "ticket.waiting again": "Its caller is back, so it is in the queue again at its old position.",
    "ticket.away": "Its caller is gone. With an Idempotency-Key it keeps its position for 60 s and is passed over.",
    "ticket.elsewhere": "It had waited for longer than its realm's spill_after_s, and the other realm had a free slot.",
    "ticket.reserves": "It is the oldest bundle that can be served, and has waited for HUB_BUNDLE_PATIENCE_SECONDS: "
    "slots that it needs are set aside for it, for HUB_BUNDLE_RESERVE_SECONDS at most.",
    "ticket.left": "It no longer waits.",
    "ticket.left timeout": "Its waiting time was over (HUB_BORROW_QUEUE_TIMEOUT_SECONDS, or the time it asked for).",
    "ticket.left gone": "Its caller hung up. Without an Idempotency-Key it cannot come back.",
    "ticket.left forgotten": "Its caller did not come back within 60 s.",
    "ticket.left stopping": "The hub of its caller was stopping. Without an Idempotency-Key it cannot come back.",
    "ticket.left hub": "The hub of its caller is gone. Without an Idempotency-Key it cannot come back.",
    "ticket.left cancelled": "A caller that knows the ticket cancelled it.",
    "cap.set": "An operator set how many leases of the label may be live at once, for all hubs.",
    "cap.set cleared": "An operator cleared the cap; HUB_BORROW_CONCURRENCY_CAPS and its default hold again.",
    "pool.maintenance": "An operator restarts the pool: its slots are not lent until they are replaced.",
    "pool.maintenance over": "Its slots were replaced, or two minutes were over, so they are lent again.",
    "worker.gone": "It was removed: its claimed tasks fail or are tried again, and its providers are gone.",
    "worker.gone deleted": "Its user, or a superuser, removed it: its claimed tasks fail or are tried again.",
    "worker.gone silent": "Silent for longer than HUB_WORKER_TIMEOUT_SECONDS on the hub clock, so it was removed: its "
    "claimed tasks fail or are tried again.",
    "worker.gone hung up": "It lost its last connection and was not back within HUB_SIO_DISCONNECT_GRACE_SECONDS: its "
    "claimed tasks fail or are tried again.",
    "worker.gone doctor": "hub doctor removed its remaining or unreadable records.",
    "job.orphaned": "No worker serves it and no task waits for it, so it was soft-deleted. Registering it again "
    "restores it.",
    "task.retried": "It failed and has another attempt, so it waits again; the pause before it doubles with each one.",
    "task.dead": "It failed for the last time it might, and is a dead letter: look at its error, try it again or drop "
    "it.",
    "task.unstuck": "A worker claimed it and did not start it within the threshold of the recovery source.",
    "task.unstuck queued": "A worker claimed it and did not start it within the threshold of the recovery source, so "
    "it waits again at its old position.",
    "task.unstuck failed": "Workers claimed it and did not start it, more often than max_attempts of the recovery "
    "source allows, so it failed.",
    "schedule.made": "A user made it: it submits a task to its job each time it is due.",
    "schedule.changed": "A user changed its job, its times or its options.",
    "schedule.changed paused": "A user paused it: it submits nothing until it is resumed.",
    "schedule.changed resumed": "A user resumed it. Times that were due while it was paused are skipped.",
    "schedule.changed readable": "Its record can be read again, and it submits tasks as before.",
    "schedule.broken": "Its record cannot be read, or no task can be submitted: it is put aside and tried again every "
    "ten minutes.",
    "schedule.removed": "A user removed it. Its tasks stay.",
    "task.scheduled": "Its schedule was due.",
    "task.recalled": "The store came back without its last seconds. A hub remembered that the task had ended, failed "
    "or been given back, and reported it again.",
    "worker.superseded": "A newer process registered with its id and is the worker now. The older process is told so "
    "with its next heartbeat or claim.",
    "task.unheld": "For half of HUB_WORKER_TIMEOUT_SECONDS the heartbeats of its worker did not name it: it was tried "
    "again, or failed.",
    "task.held": "The store had lost its claim. Its worker reported that it runs the task, and has the claim again.",
    "brake.engaged": "More than HUB_SWEEPER_BRAKE_PERCENT of the nodes are silent at once: none is removed for one "
    "HUB_NODE_TIMEOUT, nor while every node is silent. After that a few are removed at a time.",
    "brake.released": "An operator released the brake: all silent nodes are removed.",
    "brake.ended": "Fewer nodes are silent now, so none is held back.",
    "brake.engaged workers": "More than HUB_SWEEPER_BRAKE_PERCENT of the workers are silent at once, and few of the "
    "others send heartbeats: none is removed for one HUB_WORKER_TIMEOUT_SECONDS. After that a few are removed at a "
    "time.",
    "brake.released workers": "An operator released the brake: all silent workers are removed.",
    "brake.ended workers": "Fewer workers are silent now, so none is held back.",
    "sweep.switched": "An operator switched for all hubs whether silent nodes are removed (hub expire).",
    "sweep.switched cleared": "An operator cleared the switch of expiry; HUB_SWEEPER_EXPIRE holds again.",
    "sweep.node": "The pass over silent nodes found something to do.",
    "sweep.lease": "The pass over leases found something to do.",
    "sweep.worker": "The pass over silent workers, and over tasks without a live worker, found something to do.",
    "sweep.record": "The pass over stuck records of a source reset some, or failed.",
}


def rule(what: str, code: str = "") -> str:
    """Return the sentence for an event and its code. An unknown code gives the event's own sentence, else ""."""
    return _RULES.get(f"{what} {code}") or _RULES.get(what, "")
