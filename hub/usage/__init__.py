"""Who used what: the figures of each day, by user, team, label, slot and node."""
