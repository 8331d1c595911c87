"""The sweeps: passes that find dead nodes and workers, overdue leases and tasks, and entries of other programs."""
