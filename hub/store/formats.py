"""The number of the format in which a store keeps its records.

A version of the hub that changes the format raises the number; hubs of earlier versions then refuse the store.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1
