"""What pretraining knows: facts read once in a text, asked for later."""
