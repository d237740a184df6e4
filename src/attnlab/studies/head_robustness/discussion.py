"""The answer and the interpretation, written from verdicts and numbers."""

import math
from collections.abc import Sequence

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.lab.table import Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.report.text import typeset
from attnlab.studies.head_robustness.claims import first_swing
from attnlab.studies.head_robustness.evidence import Evidence
from attnlab.studies.head_robustness.plan import BETA, NOISE, VARIES
from attnlab.studies.head_robustness.settings import RobustnessSettings


def answer(claims: Sequence[Claim]) -> str:
    """'Yes, but not always: …', or what is not settled."""
    found = {c.name: c for c in claims}
    less, off, never = (
        found[n] for n in ("two-heads-swing-less", "two-heads-off-less", "not-never")
    )
    verdicts = {less.verdict, off.verdict}
    if "undecided" in verdicts:
        open_claim = less if less.verdict == "undecided" else off
        return f"Not settled: {open_claim.statement}: {open_claim.why}."
    one = found["one-head-swings"].estimate.value
    shares = (
        f"two heads miss the average in {100 * never.estimate.value:.1f} % of draws, one head in "
        f"{100 * one:.1f} %, and their output's variance along v_a is {less.estimate.value:.3f} ± "
        f"{less.estimate.half_width:.3f} times that of one head's"
    )
    if verdicts != {"holds"}:
        return f"No, not as claimed: {shares}."
    start = {"holds": "Yes, but not always", "fails": "Yes", "undecided": "Yes"}[never.verdict]
    return f"{start}: {shares}."


def discussion(
    table: Table, claims: Sequence[Claim], settings: RobustnessSettings
) -> list[Section]:
    """What it means; where the usual answer stops; β and noise; how the numbers were checked."""
    e = Evidence(table, settings)
    found = {c.name: c for c in claims}
    if not len(e.drawn(VARIES)) or not e.line(VARIES).trials:
        return [Section("What it means", ("The trials that would settle it did not end.",))]
    return [
        Section("What it means", (_one_head(e, found), _two_heads(e, found))),
        Section("Where the usual answer stops", (_never(e, found), _bias(e))),
        Section("What β and noise do", (_beta(e, found), _noise(e, found))),
        Section("Two ways to the same numbers", (_checked(e, found),)),
    ]


def said(claim: Claim) -> str:
    """'holds: interval [1.2, 1.3] lies inside …'."""
    return typeset(f"{claim.verdict}: {claim.why}")


def _percent(found: Estimate) -> str:
    """'12.7 % ± 0.1 %'; a dash where nothing was measured."""
    if not math.isfinite(found.value):
        return "–"
    width = f" ± {100 * found.half_width:.2f}" if found.has_interval else ""
    return f"{100 * found.value:.2f}{width} %"


def _number(found: Estimate) -> str:
    width = f" ± {found.half_width:.3f}" if found.has_interval else ""
    return f"{found.value:.3f}{width}" if math.isfinite(found.value) else "–"


def _measured(e: Evidence, part: str, name: str, x: float | None = None) -> Estimate:
    return mean_interval(e.drawn(part, x).column(name))


def _one_head(e: Evidence, found: dict[str, Claim]) -> str:
    s = e.settings
    return (
        "One head asks q = β(μ_a + μ_b). Its weights of a and b depend on the difference of two "
        "scores: w_a/(w_a + w_b) = 1/(1 + exp(−β(y − 1))) with y = k_a·μ_a ~ N(1, spread), up to "
        "α. With equal lengths the difference is near 0 and the head averages "
        f"({said(found['equal-lengths'])}). When the length of k_a varies, β = {s.beta:g} turns "
        "the smallest difference into a decision: the longer key takes the weight, so the output "
        f"is v_a or v_b by the toss of a coin. Off the average: {_percent(_off(e, 'one'))}. The "
        f"mean over draws is the average all the same ({said(found['mean-hides-it'])}): a mean "
        "over inputs hides that hardly any single output is right."
    )


def _off(e: Evidence, arm: str) -> Estimate:
    return _measured(e, VARIES, f"{arm}_off")


def _two_heads(e: Evidence, found: dict[str, Claim]) -> str:
    ratio = found["two-heads-swing-less"]
    return (
        "Two heads ask β·μ_a and β·μ_b. Each compares its own key with keys that are orthogonal to "
        "its query, of score near 0, and not with the other key of the pair: a margin of 1, where "
        "one head had a margin of 0. Length changes how sure head 1 is, and which key it finds "
        "only where the score of k_a comes near 0. "
        f"Off the average: {_percent(_off(e, 'two'))}. The variance along v_a, two heads over one, "
        f"is {_number(ratio.estimate)} (claimed below a quarter: {ratio.verdict})."
    )


def _never(e: Evidence, found: dict[str, Claim]) -> str:
    limit = e.exact(VARIES, "limit")
    off, both = _off(e, "two"), _measured(e, VARIES, "off_and_lost")
    why = ""
    if off.value > 0:
        share = 100 * both.value / off.value
        why = f" In {share:.1f} % of those draws head 1 gave k_a less than half its weight."
    return (
        "The usual answer is that two heads return the average whatever the length of k_a. That "
        f"they miss it more than 5 % of the time {said(found['not-never'])}.{why} The score "
        "y ~ N(1, spread) can be small, and is negative with probability "
        f"{e.exact(VARIES, 'negative'):.4f} ({said(found['negative-score'])}); then k_a scores "
        "below the keys that have nothing to do with the query, and head 1 spreads over those. The "
        f"other half of the output is still v_b. As β → ∞ the share off tends to {limit:.4f}, the "
        f"chance that some other key has a larger score than k_a "
        f"({said(found['large-beta-limit'])}). No β brings it to 0."
    )


def _bias(e: Evidence) -> str:
    line, beta = e.line(VARIES), e.settings.beta
    a, b = (line.at(beta, f"two_mean_{key}") for key in "ab")
    return (
        f"Two heads pay with a bias: on average they give v_a {a:.3f} and v_b {b:.3f} (exact, "
        f"β = {beta:g}), since losses of k_a are not made up by gains; one head gives "
        f"{line.at(beta, 'one_mean_a'):.3f} and {line.at(beta, 'one_mean_b'):.3f}. In root mean "
        f"square, which counts both, two heads are {_root(e, 'two'):.3f} from the average and one "
        f"head {_root(e, 'one'):.3f}."
    )


def _root(e: Evidence, arm: str) -> float:
    return math.sqrt(e.line(VARIES).at(e.settings.beta, f"{arm}_square"))


def _beta(e: Evidence, found: dict[str, Claim]) -> str:
    line = e.line(BETA)
    best = ""
    if line.x.size:
        at = {arm: int(line[f"{arm}_square"].argmin()) for arm in ("one", "two")}
        best = (
            " Along the exact line "
            + ", ".join(
                f"{words} closest at β = {line.x[at[arm]]:.3g}, "
                f"{math.sqrt(line[f'{arm}_square'][at[arm]]):.3f} from the average"
                for arm, words in (("one", "one head comes"), ("two", "two heads come"))
            )
            + "."
        )
    return (
        "A larger β is the usual cure for an average that is not sharp enough. It works for two "
        f"heads ({said(found['larger-beta-two'])}) and harms one ({said(found['larger-beta-one'])})"
        f": what sharpens the choice against the other keys sharpens it between a and b.{best} "
        "That one head is further off, each at its best β, "
        f"{said(found['no-beta-saves-one-head'])}."
    )


def _noise(e: Evidence, found: dict[str, Claim]) -> str:
    alpha, beta = first_swing(e), e.settings.beta
    start = (
        "“Vanishingly small α” means small against 1/β²: the difference of the two scores has "
        "standard deviation 2β√α even when no key is special, and one head averages only while "
        "that is well below 1"
    )
    if math.isnan(alpha):
        return f"{start}; at none of the α simulated is it off half the time."
    size = 2 * beta * math.sqrt(alpha)
    return (
        f"{start}. At α = {alpha:g} it is {size:.1f}, and one head is off "
        f"{_percent(_measured(e, NOISE, 'one_off', alpha))} of the time, two heads "
        f"{_percent(_measured(e, NOISE, 'two_off', alpha))} ({said(found['noise-alone'])})."
    )


def _checked(e: Evidence, found: dict[str, Claim]) -> str:
    s = e.settings
    return (
        f"Simulation draws {s.keys} keys in {s.dims} dimensions around means turned at random, "
        "and runs attention on them. The exact law uses the scores alone: means and variances of "
        "the weights by a quadrature whose order is audited; the share off, where one normal "
        "variable is all there is, by its roots, and otherwise over evenly spread points with an "
        "error of its own. That both agree on the share off "
        f"{said(found['exact-agrees-one'])} (one head), {said(found['exact-agrees-two'])} (two)."
    )
