"""ONE loop for every model that learns by steps.

settings.py    what can be set; schedule.py: the learning rate of a step
batch.py       batches of any shape: moved, cut into pieces, recognised again
optimizer.py   AdamW, SGD, Adagrad as torch has them, and their state by parameter name
update.py      one step; loop.py: all of them; result.py: what goes in and comes out
classify.py    classifiers in the loop; tune.py: full, head, prefixes, lora
log.py         one line a step
checkpoint.py  what a checkpoint is; tensors.py: models as safetensors; folder.py: whole or none
surroundings.py  what is outside the model and still changes bits
"""
