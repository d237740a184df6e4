"""The functions behind `import attnlab` and the command line.

running.run, running.plan    a study            training.train       a GPT on one's own text
questions.attend, .audit …   any model          training.finetune    a classifier
generating.generate          texts              targets.load         a model by its name
"""
