"""Data sets and their baselines: text as documents, tokens and batches, and n-gram models.

corpus.py       documents and their splits; drama.py: the speeches of a play
tokenizer.py    word, character and byte-pair tokenizers (on the tokenizers library)
batches.py      packed windows or one sentence per row, as a pure function of seed and step
birthplaces.py  where was X born: from people.py, or from files
span_corruption.py  prefix ⁇ suffix ⁇ span
labelled.py     labelled texts: known_data.py, or a user's tables.py and split_folder.py;
                encoder_inputs.py: their tokens and batches for an encoder
summaries.py    articles with summaries; prompts.py: prompts with answers as batches
texts.py        a list of texts from a file
ngram.py        uniform, unigram, bigram, trigram … with Kneser–Ney smoothing, on the same tokens
"""
