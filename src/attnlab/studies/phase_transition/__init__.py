"""At which number of samples does attention switch from reading positions to reading meaning?

study.py      the question and the settings; plan.py: the trials of every part
trial.py      one trial: an instance, a ridge search, a theory curve, critical points, stability
evidence.py   theory at an α, estimates over instances, crossings; claims.py: the verdicts
figures.py    what the paper does not show; paper_figures.py: its Figures 2 and 3
report.md     answer and discussion; facts.py: the numbers in it
"""
