"""The endpoints for operators: what they can look at, and what they can change."""
