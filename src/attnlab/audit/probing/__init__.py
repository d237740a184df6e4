"""The machinery that asks a model: wrapping, calling, isolating, copying, measuring, localising."""
