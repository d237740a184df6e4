"""The model of attention that can be solved exactly (Cui, Behrens, Krzakala, Zdeborova 2024).

teacher.py   x ~ N(0, sigma^2), targets = teacher's attention times x
student.py   the loss of a tied attention layer, through per-sample Gram blocks
solve.py     batched quasi-Newton and gradient descent: many students, one data set
generalise.py  test error of trained weights: streamed samples, and the exact integral
validate.py  the ridge by cross-validation, and by leave-one-out from one fit
simulate.py  all of it for one instance; limits.py: refuse what cannot fit; answers.py: plain values
theory.py    the same curves for D -> infinity (state evolution); phase.py: critical points
"""
