"""Capacity plans and operating points: settings and costs that follow from requirements."""
