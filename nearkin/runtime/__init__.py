"""What every part of nearkin stands on and no part of the pipeline is: files."""
