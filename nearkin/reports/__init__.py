"""Reports of runs as HTML pages and on the terminal."""
