"""Teams that share pools: what each may always have, what it has at most, and how much it counts."""
