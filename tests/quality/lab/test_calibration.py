"""Tests of the calibration of a machine."""

import pytest

from nearkin.quality.lab.calibration import fit_stage_rates
from nearkin.quality.plan.rates import STAGES, StageRate


def test_stage_rates_are_fitted_from_three_corpora() -> None:
    true = {name: StageRate(0.5, 2e-6, 3e-9 if name != "start" else 0.0) for name in STAGES}
    corpora = [(2_000, 600_000), (100_000, 30_000_000), (10_000, 90_000_000)]
    measured = [
        {
            "documents": n,
            "bytes": size,
            "seconds": {name: rate.seconds(n, size) for name, rate in true.items()},
        }
        for n, size in corpora
    ]
    fitted = fit_stage_rates(measured)
    for name in STAGES[1:]:
        assert fitted[name].document == pytest.approx(2e-6, rel=0.02)
        assert fitted[name].byte == pytest.approx(3e-9, rel=0.02)
