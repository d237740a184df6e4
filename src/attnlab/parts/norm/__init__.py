"""Seam `norm`: what keeps the size of every position's vector, before attention and MLP."""

from attnlab.parts.norm.base import Norm as Norm
from attnlab.parts.norm.layer import Layer as Layer
from attnlab.parts.norm.rms import Rms as Rms
