"""insitu: scalability models of MPI programs, made while they run."""

TYPE_CHECKING = False  # typing is not loaded in a rank
if TYPE_CHECKING:
    from insitu.collectors.regions import phase, region
    from insitu.expectations.validate import validate
    from insitu.modeling.base import Model
    from insitu.modeling.classes.cluster import cluster
    from insitu.modeling.modelers import fit
    from insitu.notebook import open_campaign

__version__ = "0.1.0"

_PUBLIC = {
    "Model": "insitu.modeling.base",
    "cluster": "insitu.modeling.classes.cluster",
    "fit": "insitu.modeling.modelers",
    "open_campaign": "insitu.notebook",
    "phase": "insitu.collectors.regions",
    "region": "insitu.collectors.regions",
    "validate": "insitu.expectations.validate",
}
__all__ = ["Model", "__version__", "cluster", "fit", "open_campaign", "phase", "region", "validate"]


def __dir__() -> list[str]:
    """The public names, for people who look around."""
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Load public names on first use: a rank must not import what it will not use."""
    if name not in _PUBLIC:
        from difflib import get_close_matches

        similar = get_close_matches(name, __all__, n=1)
        hint = f"; did you mean '{similar[0]}'?" if similar else ""
        raise AttributeError(f"module 'insitu' has no attribute '{name}'{hint}")
    from importlib import import_module

    value: object = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value
