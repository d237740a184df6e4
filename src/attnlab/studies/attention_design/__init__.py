"""What can one query do with given keys?

study.py      the question, the settings, the trials, claims
trial.py      one trial: the exercise, random keys, norms, targets, pairs, subspaces
gaussian.py   the exact law of the share of random keys that a query can select
figures.py    everything that was measured; plane.py: the exercise drawn
report.md     answer and discussion
"""
