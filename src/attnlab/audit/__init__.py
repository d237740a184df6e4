"""Small programs that try to show that a result is not what it seems. One file an audit."""
