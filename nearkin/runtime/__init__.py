"""Services that every part of nearkin uses: files, outputs, and checks of the environment."""
