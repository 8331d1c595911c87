"""Slots, pools of slots, leases, the queue of waiting borrows, and nodes."""
