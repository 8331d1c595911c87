"""The routes of operators: what they look at and what they change."""
