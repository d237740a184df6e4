"""A run folder becomes one page: question, answer, claims, figures, method, trials."""
