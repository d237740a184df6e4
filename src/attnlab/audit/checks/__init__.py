"""One file an audit: what it runs, its number, its threshold, and when it fails."""
