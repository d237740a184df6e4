"""The study behind `attnlab finetune`: an encoder adapted to your labelled texts."""
