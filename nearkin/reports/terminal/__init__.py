"""The output of runs, evaluations and plans on the terminal."""
