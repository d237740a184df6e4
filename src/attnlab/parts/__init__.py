"""The seams of a block: one folder a seam, one file a variant; attention.py is the mechanism.

project/    x -> q, k, v                    position/   on embeddings, on heads, on scores
mask/       who may look where              normalise/  scores -> weights
merge/      heads -> out                    norm/       the norms of a block
mlp/        the feed-forward network        attention.py  all of attention on one screen
part.py     what a part is; fast.py: one fused product; cached.py: one token at a time
"""
