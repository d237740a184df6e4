"""Seam `mask`: which key a query may look at. Join Configs with & and |."""

from attnlab.parts.mask.base import Mask as Mask
from attnlab.parts.mask.both import Both as Both
from attnlab.parts.mask.causal import Causal as Causal
from attnlab.parts.mask.either import Either as Either
from attnlab.parts.mask.full import Full as Full
from attnlab.parts.mask.only_self import OnlySelf as OnlySelf
from attnlab.parts.mask.own_block import OwnBlock as OwnBlock
from attnlab.parts.mask.prefix import Prefix as Prefix
from attnlab.parts.mask.window import Window as Window
