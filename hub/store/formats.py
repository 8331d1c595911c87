"""The format of what a store keeps.

A version of the hub that changes the format raises the number; hubs of the version before then refuse the store.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1
