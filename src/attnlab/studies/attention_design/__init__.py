"""What can one query do with given keys?

settings.py   the exercise's keys and values, sizes of the random ones, the three scales
work.py       one trial: the exercise, random keys, norms, targets, pairs, subspaces
study.py      trials, claims, answer; discussion.py: what they mean
evidence.py   the table condensed; gaussian.py: the exact law of random keys
plane.py      the exercise drawn; figures.py: everything that was measured
"""
