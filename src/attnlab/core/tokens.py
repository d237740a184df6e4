"""Token ids, and the target id that every loss and every score ignores."""

from collections.abc import Sequence
from typing import Final

import numpy as np

Ids = np.ndarray | Sequence[int]
IGNORE: Final = -100  # torch's cross_entropy skips this target by default
