"""Metrics and intervals as pure functions: ROUGE, perplexity, diversity, calibration, t, Wilson."""
