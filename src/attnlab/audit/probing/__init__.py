"""The code that queries a model: wrapping, calling, isolating, copying, measuring, localising."""
