import hashlib
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.lab.trial import FINISHED, Trial

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
configs = st.dictionaries(st.text(max_size=6), plain, max_size=5)


@settings(deadline=None)
@given(configs, st.integers(0, 2**63 - 1))
def test_id_is_a_function_of_content_alone(config: dict[str, object], seed: int) -> None:
    backwards = dict(reversed(list(config.items())))
    trial = Trial("s", 1, config, seed)
    assert trial.id == Trial("s", 1, backwards, seed).id
    assert len(trial.id) == 16 and set(trial.id) <= set("0123456789abcdef")
    others = [
        Trial("t", 1, config, seed),
        Trial("s", 2, config, seed),
        Trial("s", 1, {**config, "new key": 0}, seed),
        Trial("s", 1, config, seed + 1),
    ]
    assert len({trial.id, *(other.id for other in others)}) == 5


def test_id_is_the_same_in_another_process_and_forever() -> None:
    code = (
        "from attnlab.lab.trial import Trial;"
        "print(Trial('study', 3, {'b': 0.1, 'a': [1, 'x']}, 7).id)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == Trial("study", 3, {"a": [1, "x"], "b": 0.1}, 7).id
    text = '{"config":{"a":[1,"x"],"b":0.1},"seed":7,"study":"study","version":3}'
    assert (
        done.stdout.strip() == hashlib.sha256(text.encode()).hexdigest()[:16] == "e1adfca6c78c3138"
    )


def test_a_diverged_trial_is_not_run_again() -> None:
    assert {"done", "diverged"} == FINISHED
