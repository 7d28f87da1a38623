"""Speeds of a machine that does not exist, for plans of known durations."""

from nearkin.quality.plan.rates import STAGES, Rates, StageRate

SECONDS = {name: StageRate(1.0, 1e-6, 1e-9) for name in STAGES}


RATES = Rates({"cores": 2, "processor": "made up"}, 2, SECONDS, 4e8, 1e10, 1e9, 1e6, "made up")
