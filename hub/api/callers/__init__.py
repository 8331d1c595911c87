"""Who calls, and what it may do."""
