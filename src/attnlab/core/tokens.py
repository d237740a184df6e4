"""What every room agrees on about tokens: a row of ids, and the target nobody scores."""

from collections.abc import Sequence
from typing import Final

import numpy as np

Ids = np.ndarray | Sequence[int]
IGNORE: Final = -100  # torch's cross_entropy skips this target by default
