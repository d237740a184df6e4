"""What courses teach about tokenizers, encoders and training, checked by running it."""
