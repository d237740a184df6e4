"""What a pretrained model knows: facts that it read once in a text and is asked about later."""
