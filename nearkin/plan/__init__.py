"""From a service level to parameters."""
