"""What can be varied; the defaults are the quick scale."""

from typing import Annotated, Any

from pydantic import Field

from attnlab.lab.study import StudySettings

Matrix = tuple[tuple[float, ...], ...]


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


# Four corners and one key inside them, in the plane, so that everything can be drawn.
KEYS: Matrix = ((1.6, 0.2), (0.3, 1.5), (-1.5, 0.6), (-0.4, -1.4), (0.1, 0.3))
VALUES: Matrix = (
    (1, 0, 0, 0, 0),
    (0, 1, 0, 0, 0),
    (0, 0, 1, 0, 0),
    (0, 0, 0, 1, 0),
    (0, 0, 0, 0, 1),
)


class DesignSettings(StudySettings):
    """One exercise with given keys, and keys drawn at random."""

    keys: Matrix = about("keys of the exercise, one a row; drawn if they lie in the plane", KEYS)
    values: Matrix = about("values of the exercise, one a row", VALUES)
    weight: float = about("what selecting means: the weight to reach", 0.99, gt=0.5, lt=1)
    seeds: int = about("independent sets of random keys", 8, ge=1)
    dims: tuple[int, ...] = about("dimensions h of random keys (convex hulls)", (2, 3, 5))
    sizes: tuple[int, ...] = about("numbers n of random keys", (8, 32, 128, 512, 2048))
    checked: int = about("keys of each set whose hull verdict is checked by `select`", 3, ge=0)
    norm_keys: Annotated[int, Field(ge=2)] = about("keys of the norm–weight curves", 256)
    norm_dim: Annotated[int, Field(ge=2)] = about("their dimension", 16)
    target_keys: Annotated[int, Field(ge=3)] = about("keys of the random targets", 12)
    target_dim: Annotated[int, Field(ge=1)] = about("their dimension", 5)
    targets: int = about("random targets a set", 10, ge=1)
    pairs: tuple[int, ...] = about(
        "numbers of orthonormal keys of β(k_a + k_b)", (4, 8, 16, 32, 64, 128, 256, 512)
    )
    tolerance: float = about("how far from an average is still one", 0.01, gt=0, lt=1)
    angles: tuple[float, ...] = about(
        "least angles between the subspaces, in degrees", (5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0)
    )


SMOKE: dict[str, Any] = {
    "seeds": 3,
    "dims": [2, 3],
    "sizes": [8, 32, 128],
    "checked": 1,
    "norm_keys": 12,
    "norm_dim": 8,
    "targets": 2,
    "pairs": [4, 16, 64],
    "angles": [10, 30, 90],
}
FULL: dict[str, Any] = {
    "seeds": 16,
    "dims": [2, 3, 4, 5],
    "sizes": [8, 32, 128, 512, 2048, 8192, 32768],
    "checked": 3,
    "norm_keys": 1024,
    "norm_dim": 64,
    "targets": 50,
    "pairs": [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
}
