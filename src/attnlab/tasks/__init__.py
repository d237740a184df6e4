"""Data with their own baselines: text as documents, tokens, batches, and n-gram models beside it.

corpus.py   documents and their splits; drama.py: what is spoken in a play; sentences
tokens.py   words, characters or byte-pair pieces as numbers (on the tokenizers library)
batches.py  packed windows or one sentence a row, a pure function of seed and step
birthplaces.py  where was X born: people.py and biographies.py, or a course's files
span_corruption.py  prefix ⁇ suffix ⁇ span; mixed.py: several sources in one batch
labelled.py  texts with labels: sentiment.py, boolq.py, snli.py, anyone's tables.py; encoded.py
ngram.py    uniform, unigram, bigram, trigram ... by Kneser and Ney, on the same tokens
"""
