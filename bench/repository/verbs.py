"""The verbs of ``checkback bench`` that only a checkout has."""

from __future__ import annotations

from typing import Final

from checkback.bench.options import Verb
from checkback.bench.repository.bodies import BodiesBench, BodiesOptions
from checkback.bench.repository.scale import ScaleBench, ScaleOptions

VERBS: Final = (
    Verb("bodies", BodiesOptions, BodiesBench, body_bytes=1_048_576),
    Verb("scale", ScaleOptions, ScaleBench),
)
