"""Make an image again from its provenance, and compare the layers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.api.bills import require_provenance
from lumicontainer.api.building import BuildRequest, run_build
from lumicontainer.api.values import BuildOptions, OnProgress
from lumicontainer.building.file_output import FileOutput
from lumicontainer.core.lock import apply_lock, faults, read_lock
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import InputError, LockError, Problem, Problems
from lumicontainer.host.recipes import locate_recipe, resolve_recipe
from lumicontainer.image import records
from lumicontainer.system.terminal.text import TextPart, TextTable
from lumicontainer.trust.rebuilt import SAME, LayerComparison, compare_layers
from lumicontainer.trust.statement import BUILD, Provenance, extend_command


@dataclass(frozen=True)
class RebuildRequest:
    """Name an image that is made again, and the file of the new one."""

    image: Path
    output: Path | None = None
    """By default the image's name with ``.rebuilt.sif`` in the current folder."""
    recipe: str = ""
    """Its recipe, by name or file; by default the name that the image has."""
    recipes: Path | None = None
    """A folder of your own, searched first."""
    cached: bool = False
    """Whether layers may come from the cache; otherwise every step runs again."""

    @property
    def file(self) -> Path:
        """Return the file of the new image."""
        return self.output or Path(f"{self.image.stem}.rebuilt.sif")


class Rebuilt(NamedTuple):
    """Hold the new image, and how its layers compare."""

    image: Path
    layers: Sequence[LayerComparison]
    is_same: bool
    """Whether the file systems of both images have the same bytes."""

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer rebuild --json`` prints it."""
        layers = [each._asdict() for each in self.layers]
        return {"image": str(self.image), "same": self.is_same, "layers": layers}

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer rebuild`` prints it."""
        yield TextTable([(each.name, each.state) for each in self.layers])
        end = "has the same files, byte for byte" if self.is_same else "differs"
        yield f"{self.image} {end}"


def rebuild(
    request: RebuildRequest,
    on_progress: OnProgress | None = None,
    on_problem: Callable[[Problem], None] = lambda _: None,
) -> Rebuilt:
    """Build an image again with the values and pins of its provenance.

    Raises ``InputError`` if it has no provenance, ``LockError`` if its recipe of today has other
    inputs than its lock pins, and what a build raises.
    """
    before = require_provenance(request.image)
    resolved = resolve_again(request, before)
    if not resolved.lock:
        what, why = "the image was built without a lock", "packages may have other versions today"
        hint = "lumicontainer lock RECIPE, then build --locked: such an image can be made again"
        on_problem(Problem(what, str(request.image), why, hint, "warning"))
    options = BuildOptions(
        rebuild=not request.cached,
        verify=records.checked(request.image),
        build_date=records.build_date(request.image),
    )
    output = FileOutput(request.file)
    run_build(BuildRequest(resolved, output=output, options=options), on_progress)
    after = require_provenance(output.path)
    layers = [*compare_layers(before.layers, after.layers)]
    subjects = [[row["digest"] for row in each.data["subject"]] for each in (before, after)]
    whole = subjects[0] == subjects[1] and all(each.state == SAME for each in layers)
    return Rebuilt(output.path, layers, whole)


def resolve_again(request: RebuildRequest, provenance: Provenance) -> Resolved:
    """Return the recipe of today with the values and pins of a provenance."""
    parameters = _parameters(request.image, provenance)
    name, folder = locate_recipe(request.recipe or parameters["recipe"], request.recipes)
    resolved = resolve_recipe(
        name,
        platform=parameters["platform"],
        profile=parameters.get("profile", ""),
        values=parameters.get("values", ()),
        recipes=folder,
    )
    text = parameters.get("lock", "")
    return _with_lock(resolved, text, request.image) if text else resolved


def _parameters(image: Path, provenance: Provenance) -> Mapping[str, Any]:
    parameters = provenance.parameters
    if provenance.build_type != BUILD or not {"recipe", "platform"} <= parameters.keys():
        what, why = "cannot make the image again", "packages were added to it after its build"
        hint = f"rebuild the image that it was made of, then repeat: {extend_command(provenance)}"
        raise InputError(Problem(what, str(image), why, hint))
    return parameters


def _with_lock(resolved: Resolved, text: str, image: Path) -> Resolved:
    problems = Problems()
    lock = read_lock(text, f"the lock in {image}", problems)
    problems.raise_if_any()
    assert lock is not None
    if wrong := faults(lock, resolved):
        what = "the lock of the image does not pin all of its recipe of today"
        hint = "name the recipe as it was: --recipes DIR, from the history of its repository"
        raise LockError(Problem(what, str(image), "\n".join(wrong), hint))
    return apply_lock(resolved, lock)._replace(lock=text)
