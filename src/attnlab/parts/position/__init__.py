"""Seam `position`: how the model knows where a token stands."""

from attnlab.parts.position.alibi import Alibi as Alibi
from attnlab.parts.position.base import Position as Position
from attnlab.parts.position.learned import Learned as Learned
from attnlab.parts.position.none import NoPosition as NoPosition
from attnlab.parts.position.rotary import Rotary as Rotary
from attnlab.parts.position.rotary_llama import RotaryLlama as RotaryLlama
from attnlab.parts.position.sinusoidal import Sinusoidal as Sinusoidal
