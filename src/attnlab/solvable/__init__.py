"""The model of attention that can be solved exactly (Cui, Behrens, Krzakala, Zdeborova 2024).

>>> from attnlab import solvable
>>> settings = solvable.SimulationSettings(dim=100, alpha=2.0, test_samples=1000)
>>> instance = solvable.simulate(settings, seed=0)
>>> instance.student("semantic").theta > instance.student("positional").theta
True
>>> [point] = solvable.curve(solvable.Model(omega=0.3), [2.0], "semantic", solvable.sobol(2**10))
>>> point.converged and 0.1 < point.theta < 0.3
True

simulate              one instance: draw a teacher and its data, train students, test them
curve, fixed_point    the order parameters and errors for D -> infinity, by state evolution
alpha_c, alpha_l, alpha_w, critical_alphas    the critical points of the phase diagram
sobol, lattice, gauss_hermite                 quadrature rules for the integrals of the theory
Teacher, cross_validate, leave_one_out        data sets, and the choice of the ridge

The names are imported on first use: the theory needs numpy and scipy, the simulation torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.solvable.phase import Crossing as Crossing
    from attnlab.solvable.phase import alpha_c as alpha_c
    from attnlab.solvable.phase import alpha_l as alpha_l
    from attnlab.solvable.phase import alpha_w as alpha_w
    from attnlab.solvable.phase import critical_alphas as critical_alphas
    from attnlab.solvable.quadrature import gauss_hermite as gauss_hermite
    from attnlab.solvable.quadrature import lattice as lattice
    from attnlab.solvable.quadrature import sobol as sobol
    from attnlab.solvable.simulation import Simulation as Simulation
    from attnlab.solvable.simulation import SimulationSettings as SimulationSettings
    from attnlab.solvable.simulation import Student as Student
    from attnlab.solvable.simulation import simulate as simulate
    from attnlab.solvable.storage import load_data as load_data
    from attnlab.solvable.storage import save_data as save_data
    from attnlab.solvable.teacher import Dataset as Dataset
    from attnlab.solvable.teacher import Teacher as Teacher
    from attnlab.solvable.teacher import TeacherSettings as TeacherSettings
    from attnlab.solvable.theory import Model as Model
    from attnlab.solvable.theory import Point as Point
    from attnlab.solvable.theory import curve as curve
    from attnlab.solvable.theory import fixed_point as fixed_point
    from attnlab.solvable.theory import linear_test_error as linear_test_error
    from attnlab.solvable.validate import cross_validate as cross_validate
    from attnlab.solvable.validate import leave_one_out as leave_one_out

# Those that need torch come last.
_MODULES = ("quadrature", "theory", "phase", "teacher", "storage", "simulation", "validate")

__all__ = [
    "Crossing",
    "Dataset",
    "Model",
    "Point",
    "Simulation",
    "SimulationSettings",
    "Student",
    "Teacher",
    "TeacherSettings",
    "alpha_c",
    "alpha_l",
    "alpha_w",
    "critical_alphas",
    "cross_validate",
    "curve",
    "fixed_point",
    "gauss_hermite",
    "lattice",
    "leave_one_out",
    "linear_test_error",
    "load_data",
    "save_data",
    "simulate",
    "sobol",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module when it is first used."""
    import importlib

    for module in _MODULES if name in __all__ else ():
        found = importlib.import_module(f"attnlab.solvable.{module}")
        if hasattr(found, name):
            return getattr(found, name)
    raise AttributeError(f"module 'attnlab.solvable' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, whether they have been imported or not."""
    return sorted(__all__)
