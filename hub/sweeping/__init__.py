"""What the hub does by itself: finding what is dead, overdue, or written by others, and putting it right."""
