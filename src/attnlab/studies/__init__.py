"""The built-in questions, one file each. This table is all that is imported to list them."""

STUDIES: dict[str, str] = {
    "phase-transition": "attnlab.studies.phase_transition.study:PhaseTransition",
    "positions": "attnlab.studies.mini_gpt.positions:Positions",
    "head-merging": "attnlab.studies.mini_gpt.head_merging:HeadMerging",
    "projection-depth": "attnlab.studies.mini_gpt.projection_depth:ProjectionDepth",
    "head-robustness": "attnlab.studies.head_robustness.study:HeadRobustness",
    "attention-design": "attnlab.studies.attention_design.study:AttentionDesign",
    "hard-attention": "attnlab.studies.hard_attention.study:HardAttention",
    "counting": "attnlab.studies.counting.study:Counting",
    "decoding": "attnlab.studies.decoding.study:Decoding",
    "distillation": "attnlab.studies.distillation.study:Distillation",
    "knowledge": "attnlab.studies.knowledge.study:Knowledge",
    "fine-tuning": "attnlab.studies.adapting.fine_tuning:FineTuning",
    "optimizers": "attnlab.studies.adapting.optimizers:Optimizers",
    "adapters": "attnlab.studies.adapting.adapters:Adapters",
    "concepts": "attnlab.studies.concepts.study:Concepts",
}


def study_names() -> list[str]:
    """The names `attnlab run` knows, sorted."""
    return sorted(STUDIES)
