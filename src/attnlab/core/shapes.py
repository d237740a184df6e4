"""Names of tensor axes, the same in the whole package.

Type annotations use these words (`Float[Tensor, "sample token dim"]`); einsum letters are in
brackets.

sample  [n]  independent draws of a sequence          token   [l, m]  positions in a sequence (L)
dim     [d]  width of a token (D)                      rank    [r]     rows of W (D_K)
student [k]  columns solved together: starts, ridges, folds
batch query key head d_model d_head vocab              the words of language models, as usual
"""
