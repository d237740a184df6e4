"""What the verdicts mean, in words."""

import math
from collections.abc import Mapping

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.studies.attention_design.evidence import GAUSSIAN, Found
from attnlab.studies.attention_design.gaussian import asymptotic_share, exact_share
from attnlab.studies.attention_design.settings import DesignSettings


def sections(found: Found, claims: Mapping[str, Claim], settings: DesignSettings) -> list[Section]:
    """The exercise, the geometry, the price."""
    return [
        Section("The exercise", tuple(_exercise(found))),
        Section("What it means", tuple(_meaning(found, claims, settings))),
    ]


def _exercise(found: Found) -> list[str]:
    return [f"{name}: {each['why']}" for name, each in found.exercise().items()]


def _meaning(found: Found, claims: Mapping[str, Claim], settings: DesignSettings) -> list[str]:
    n, high = max(settings.sizes), max(settings.dims)
    share, theory = found.share(GAUSSIAN, n, high), exact_share(n, high)
    half = math.exp(claims["margin-is-longer"].estimate.value)
    rows = found.rows("norms")
    most = float(rows.column("longer at 0.99").mean()) if len(rows) else math.nan
    return [
        "A query gives each key a score, and scores are linear: a key inside the hull of the "
        "others is an average of them, so its score is the same average and never the largest. "
        "More weight than 1/(1 + e^H) it cannot get, H the entropy of the most even such average. "
        "On a sphere no key is inside; layer normalisation of keys puts them on one.",
        f"Of n Gaussian keys the share that can be selected is known exactly for every n: in "
        f"{high} dimensions at n = {n:,} {share.value:.1%} are measured where the law says "
        f"{theory:.1%}. Its limit falls like (ln n)^((h−1)/2)/n, and higher dimensions come late "
        f"to it: here it says {asymptotic_share(n, high):.1%}. The constant 2^h/√h often quoted "
        "belongs to facets; for corners it is h β(h) times that, β(h) the angle at a corner of the "
        f"regular simplex with h corners ({claims['facets'].why}).",
        "The direction of largest margin is the one a very long query takes; for a weight of ½ it "
        f"needs a query {half:.2f} times as long as the shortest, for 0.99 {most:.2f} times.",
        f"Without a scale, q = k_a + k_b is no average: {claims['no-scale'].why}. The β it takes "
        "grows with ln n; with unequal norms no β gives equal weights.",
    ]
