"""One model trained on a text: what `attnlab train` runs."""
