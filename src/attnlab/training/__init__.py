"""ONE training loop for every model that learns by gradient steps.

loop.py         the loop; result.py: the hooks that go in and the result that comes out
settings.py     the settings of a training; schedule.py: the learning rate of each step
batch.py        batches of any structure: map, split and fingerprint their tensors
update.py       one optimizer step; optimizer.py: AdamW, SGD, Adagrad and their state by name
classify.py     training and scoring classifiers; tune.py: full, head, prefix and LoRA tuning
distillation.py losses that compare a student with its teacher
log.py          the metric log, one JSON line per step
checkpoint.py   checkpoints; tensors.py: models as safetensors; atomic_folder.py: atomic writes
ranks.py        data-parallel training; fsdp.py, sharded_checkpoint.py: sharded training
determinism.py  random generators, kernels and threads, which also change the bits
"""
