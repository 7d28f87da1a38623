"""The runners of other tools, one file each."""
