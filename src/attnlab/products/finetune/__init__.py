"""What `attnlab finetune` runs: an encoder fine-tuned on labelled texts."""
