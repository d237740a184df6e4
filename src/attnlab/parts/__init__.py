"""The seams of attention: one folder a seam, one file a variant; attention.py is the mechanism.

project/    x -> q, k, v                    position/   on embeddings, on heads, on scores
mask/       who may look where              normalise/  scores -> weights
merge/      heads -> out                    attention.py  all of it on one screen
part.py     what a part is; fast.py: one fused product; cached.py: one token at a time
"""
