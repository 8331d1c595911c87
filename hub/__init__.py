"""capacity-hub: nodes announce what they can lend, borrowers take it, and what dies gives back what it held."""

__version__ = "0.1.0"
