"""The built-in questions, one file each. This table is all that is imported to list them."""

STUDIES: dict[str, str] = {
    "phase-transition": "attnlab.studies.phase_transition.study:PhaseTransition",
}


def study_names() -> list[str]:
    """The names `attnlab run` knows, sorted."""
    return sorted(STUDIES)
