"""What a small student keeps of its teacher: by its texts, by its probabilities, by people's."""
