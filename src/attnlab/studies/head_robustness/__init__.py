"""One head or two, when the length of a key is random: what reaches the output."""
