"""What every course asserts about tokenizers, encoders and training, settled by running it."""
