"""Where does attention switch from reading positions to reading meaning?

settings.py   what can be varied, and the three scales
plan.py       the trials of each part of the study
work.py       one trial: an instance, a ridge search, a theory curve, critical points
evidence.py   the table condensed: crossings, estimates, theory at an alpha
claims.py     sentences with computed verdicts; discussion.py: what they mean
figures.py    Figure 2 of the paper; maps.py: Figure 3; beyond.py: what the paper does not show
"""
