"""What happened, by which rule, and what happens next: events of the store, read, followed and explained."""
