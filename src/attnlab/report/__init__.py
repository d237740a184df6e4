"""Reports as one HTML page, figures, attention maps, and numbers as text."""
