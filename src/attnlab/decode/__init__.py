"""Text from a model: filters, strategies, one loop for every model, beam search."""
