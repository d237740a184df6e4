"""Settings of the study; the defaults are the quick scale."""

from typing import Any

from pydantic import Field, model_validator

from attnlab.lab.study import StudySettings

Grid = tuple[float, ...]


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


class RobustnessSettings(StudySettings):
    """Keys k_i ~ N(μ_i, αI), orthonormal μ_i; key a has the covariance αI + spread·μ_a μ_aᵀ."""

    seeds: int = about("independent sets of draws a point", 8, ge=1)
    draws: int = about("sets of keys drawn, a point and seed", 20_000, ge=10)
    keys: int = about("n, keys; the first two are a and b", 8, ge=2)
    dims: int = about("h, dimensions; at least n, for the means are orthonormal", 16, ge=2)
    alpha: float = about("α, variance of every key in every direction", 1e-4, ge=0, le=10)
    spread: float = about("variance of k_a along its own mean: its length", 0.5, gt=0, le=10)
    beta: float = about("β: one head asks β(μ_a + μ_b), two ask βμ_a and βμ_b", 10.0, gt=0, le=1e4)
    tolerance: float = about(
        "an output is off where its part along v_a or v_b is further than this from 1/2",
        0.25,
        gt=0,
        lt=0.5,
    )

    betas: Grid = about("β of its sweep", (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 40.0, 80.0))
    spreads: Grid = about("spreads of their sweep", (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0))
    alphas: Grid = about(
        "α of its sweep, all keys alike", (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
    )
    line_points: int = about("points of each exact line between those of the sweep", 64, ge=0)
    shown: int = about("draws shown one by one in a figure", 600, ge=1)

    @model_validator(mode="after")
    def _fits(self) -> "RobustnessSettings":
        if self.dims < self.keys:
            raise ValueError(f"{self.keys} orthonormal means need dims of at least {self.keys}")
        for name in ("betas", "spreads", "alphas"):
            grid = getattr(self, name)
            if len(grid) < 2 or min(grid) <= 0 or len(set(grid)) < len(grid):
                raise ValueError(f"{name} must be two or more different positive numbers")
        return self


SMOKE: dict[str, Any] = {
    "seeds": 3,
    "draws": 3000,
    "keys": 5,
    "dims": 7,
    "betas": [2.0, 10.0, 60.0],
    "spreads": [0.05, 0.5, 2.0],
    "alphas": [1e-4, 1e-2, 1e-1],
    "line_points": 6,
    "shown": 150,
}
FULL: dict[str, Any] = {
    "seeds": 20,
    "draws": 50_000,
    "keys": 32,
    "dims": 64,
    "line_points": 60,
    "betas": [
        1.0,
        1.5,
        2.0,
        3.0,
        4.0,
        5.0,
        6.0,
        8.0,
        10.0,
        14.0,
        20.0,
        30.0,
        40.0,
        60.0,
        80.0,
        150.0,
    ],
    "spreads": [0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0],
    "alphas": [
        1e-5,
        3e-5,
        1e-4,
        2e-4,
        3e-4,
        5e-4,
        1e-3,
        2e-3,
        3e-3,
        5e-3,
        1e-2,
        2e-2,
        3e-2,
        5e-2,
        1e-1,
        2e-1,
    ],
}
