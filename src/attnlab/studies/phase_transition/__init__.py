"""Where does attention switch from reading positions to reading meaning?

settings.py   what can be varied, and the three scales
plan.py       the trials of each part of the study
work.py       one trial: an instance, a ridge search, a theory curve, critical points
evidence.py   the table condensed: crossings, estimates, theory at an alpha
claims.py     sentences with computed verdicts; discussion.py: what they mean
figures.py    Figures 2 and 3 of the paper and what is beyond them; maps.py: the diagrams
"""
