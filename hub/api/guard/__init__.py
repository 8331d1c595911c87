"""What keeps a hub whole whoever calls: bounds on what is under way, whose word counts, and noticing a standstill."""
