"""What can one query do with given keys?

study.py      the question, the settings, the trials
claims.py     what is claimed; theorems and identities are checks
trial.py      one trial: the exercise, random keys, norms, targets, pairs, subspaces
gaussian.py   the exact law of the share of random keys that a query can select
figures.py    everything that was measured; lengths.py, plane.py, the exercise
report.md     answer and discussion
"""
