"""The service for people who would rather look: pages under /console."""
