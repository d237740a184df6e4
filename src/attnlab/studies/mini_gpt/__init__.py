"""Small GPTs with one part swapped: positions, the merging of heads, the depth of projections."""
