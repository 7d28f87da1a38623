"""The choice of settings from labels: definitions of similarity, thresholds, cross-validation."""
