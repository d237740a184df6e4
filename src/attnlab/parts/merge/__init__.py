"""Seam `merge`: heads -> out."""

from attnlab.parts.merge.base import Merge as Merge
from attnlab.parts.merge.concat import Concat as Concat
from attnlab.parts.merge.reweight import Reweight as Reweight
from attnlab.parts.merge.reweight_causal import ReweightCausal as ReweightCausal
from attnlab.parts.merge.shift import Shift as Shift
from attnlab.parts.merge.shuffle import Shuffle as Shuffle
