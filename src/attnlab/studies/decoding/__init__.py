"""Ways of choosing the next token, compared on the same prompts and beside what people wrote."""
