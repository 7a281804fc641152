"""Every field that users write is varied: what its change rebuilds, and what it leaves."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from typing import Any, NamedTuple

import pytest

from lumicontainer.core import model
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.yaml.nodes import Scalar
from lumicontainer.core.yaml.readers import Text
from lumicontainer.errors import Place

from ...worlds import HERE, LAYER, WORLD, World, another, compiling

BASE, STEP, INSTALL, RECORD, NOTHING = "base", "step", "install", "record", "nothing"
"""Steps that a change rebuilds: all; the layer, its wheels and all above; all of these but wheels;
the last step, which bakes in the record; nothing."""
CASE = "case"
"""Another text would be refused here: one of ``CASES`` changes it."""

FIELDS = {
    **dict.fromkeys(("Bind", "CacheFolder", "Check", "CheckNeeds", "Checks"), RECORD),
    **dict.fromkeys(
        ("Advised", "Discouraged", "Gpu", "HostLibrary", "Threshold", "Variable"), RECORD
    ),
    **dict.fromkeys(("GitSource", "Packages", "SdistSource", "UrlSource"), STEP),
    "Bootstrap": BASE,
    **dict.fromkeys(("Bootstrap.image", "Bootstrap.image_of", "Bootstrap.sha256"), NOTHING),
    "Content": STEP,
    **dict.fromkeys(("Content.apt_versions", "Content.image", "Expects"), NOTHING),
    **dict.fromkeys(("Content.provides", "PipInstall.package"), RECORD),
    "BuiltSource": STEP,
    "PipInstall.index_parameter": NOTHING,
    **dict.fromkeys(("Layer.name", "Layer.requires"), CASE),
    "Layer.secrets": STEP,
    **dict.fromkeys(("Layer.summary", "Layer.place", "Layer.version"), NOTHING),
    **dict.fromkeys(("Layer.conflicts", "Layer.not_reproducible"), NOTHING),
    **dict.fromkeys(
        ("Layer.format", "Platform.format", "Profile.format", "Recipe.format"), NOTHING
    ),
    "LayerFile": STEP,
    "LayerUse.layer": CASE,
    "LayerUse.place": NOTHING,
    "LayerUse.values": STEP,
    **dict.fromkeys(("Parameter.name", "Parameter.type"), CASE),
    "Parameter.default": STEP,
    **dict.fromkeys(("Parameter.place", "Parameter.summary"), NOTHING),
    **dict.fromkeys(("Parameter.choices", "Parameter.unsupported"), NOTHING),
    "Platform.accelerator": CASE,
    **dict.fromkeys(("Platform.name", "Platform.interface_prefix"), RECORD),
    **dict.fromkeys(("Platform.summary", "Platform.place", "Platform.detect"), NOTHING),
    **dict.fromkeys(("Platform.driver", "Platform.profile"), NOTHING),
    **dict.fromkeys(("Platform.engine", "Platform.compression", "Platform.proot"), NOTHING),
    **dict.fromkeys(("Billing", "Partition", "Share", "Slurm", "SrunOption"), NOTHING),
    "Profile.base": CASE,
    "Profile.name": RECORD,
    **dict.fromkeys(("Profile.summary", "Profile.place", "Profile.accelerator"), NOTHING),
    "Provider.omit": CASE,
    **dict.fromkeys(("Recipe.name", "Recipe.summary", "Recipe.text"), RECORD),
    **dict.fromkeys(("Recipe.place", "Recipe.profiles", "Recipe.missing"), NOTHING),
    **dict.fromkeys(("Variant.install", "Variant.compile", "Variant.omit"), CASE),
    "Variant.parameters": STEP,
    "Variant.requires": CASE,
}
"""The steps that a change of a field rebuilds; of a type, where all of its fields are alike."""
PLACES = {
    "layer.bootstrap.*": NOTHING,
    "layer.providers.second.*": NOTHING,
    "layer.variants.rocm.*": NOTHING,
    "layer.versions.2.0.*": NOTHING,
    "layer.files.rocm/a.patch.*": NOTHING,
    "layer.files.install.sh.[mc]*": INSTALL,
    "layer.files.finish.sh.[mc]*": RECORD,
    "layer.checks.*": RECORD,
    "checks.*": RECORD,
    "inside.*": RECORD,
    "layer.parameters.of_*.default": NOTHING,
    "layer.parameters.index*.default": CASE,
    "layer.parameters.version.default": CASE,
}
"""The places where it is not the field that decides."""


class Variation(NamedTuple):
    """Hold a value in which one thing is another: its place, and the fields on the way to it."""

    path: str
    fields: tuple[str, ...]
    value: Any


def variations(value: Any) -> Iterator[Variation]:
    """Yield each variation of a value in one of the things that it is made of."""
    parts: Mapping[Any, Any]
    with_part: Callable[[Any, Any], Any]
    if isinstance(value, Mapping):
        parts, with_part = value, lambda key, part: {**value, key: part}
    elif not isinstance(value, tuple) or isinstance(value, Place | Scalar):
        yield Variation("", (), another(value))
        return
    elif hasattr(value, "_asdict"):
        parts, with_part = value._asdict(), lambda key, part: value._replace(**{key: part})
    else:
        parts = dict(enumerate(value))
        with_part = lambda key, part: (*value[:key], part, *value[key + 1 :])  # noqa: E731
    for key, part in parts.items():
        own = (f"{type(value).__name__}.{key}",) if hasattr(value, "_asdict") else ()
        shown = getattr(part, "name", key) if own == () else key
        for path, fields, changed in variations(part):
            yield Variation(f"{shown}.{path}".rstrip("."), own + fields, with_part(key, changed))


VARIATIONS = {each.path: each for each in variations(WORLD)}


def effect_of(variation: Variation) -> str:
    place = next((place for place in PLACES if fnmatch(variation.path, place)), "")
    field = variation.fields[-1]
    effect = PLACES.get(place) or FIELDS.get(field) or FIELDS.get(field.partition(".")[0])
    assert effect, f"say in FIELDS what a change of {field} rebuilds"
    return effect


def test_the_world_has_a_value_in_every_field_that_users_write() -> None:
    types = [each for each in vars(model).values() if hasattr(each, "_fields")]
    written = {f"{each.__name__}.{field}" for each in types for field in each._fields}
    assert "Layer.files" in written
    assert written <= {field for each in VARIATIONS.values() for field in each.fields}


def check_rebuilt(effect: str, before: Plan, after: Plan) -> None:
    """Check from which step on all keys are new, and of which layers the wheels are new."""
    old, new = before.keys, after.keys
    kept = {BASE: 0, STEP: 2, INSTALL: 2, RECORD: len(old) - 1}.get(effect, len(old))
    assert new[:kept] == old[:kept]
    assert not set(new[kept:]) & set(old[kept:])
    one, other = (
        {step.name: step.compiled.key for step in plan.steps if step.compiled}
        for plan in (before, after)
    )
    both = one.keys() & other.keys()
    compiled = {BASE: both, STEP: {"tool", "above"}, INSTALL: {"above"}}.get(effect, set())
    assert {name for name in both if one[name] != other[name]} == compiled & both


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for path, each in VARIATIONS.items() if effect_of(each) != CASE]
)
def test_a_change_of_a_field_rebuilds_what_it_decides_and_nothing_else(path: str) -> None:
    variation = VARIATIONS[path]
    check_rebuilt(effect_of(variation), WORLD.plan(), variation.value.plan())


STACK = ("lower", "tool", "beside", "above")
PLAIN = WORLD._replace(
    profile=model.Profile("set", "a set", HERE, "cpu"), layer=compiling("tool", "lower")
).with_layers(*STACK)
ALONE = PLAIN.with_layers(*STACK[:-1])
"""A world in which no layer requires the one that changes."""
LOWER = (Text("lower"),)


def parameters(*names: str, **of_each: Any) -> World:
    one = model.Parameter("", "string", "7", HERE)._replace(**of_each)
    return PLAIN.with_layer(parameters=tuple(one._replace(name=name) for name in names))


def environment(**values: str) -> World:
    return PLAIN.with_layer(content=model.Content(environment=values))


def index(url: str) -> World:
    return PLAIN.with_layer(content=model.Content(indexed={url: ("six==1.0",)}))


def variants(cpu: model.Variant, rocm: model.Variant = model.Variant()) -> World:  # noqa: B008
    scripts = tuple(model.LayerFile(name, 0o644, name.encode()) for name in ("one", "two"))
    files = (*PLAIN.layer.files, *scripts)
    return ALONE.with_layer(requires=(), files=files, variants={"cpu": cpu, "rocm": rocm})


def swapped(key: str) -> tuple[World, World]:
    """Return worlds in which two accelerators run each the other's script."""
    one, two = (model.Variant(**{key: script}) for script in ("one", "two"))
    return variants(one, two), variants(two, one)


def provided(provider: model.Provider) -> World:
    return ALONE.with_layer(providers={"a": provider})


def installing(*requires: Text) -> World:
    """Return a world whose layer compiles nothing."""
    return PLAIN.with_layer(requires=requires, files=LAYER.files[:1])


def based(image: str, version: str = "") -> World:
    """Return a world on another base, whose ``version`` is a separate image."""
    content = model.Content(image=version, provides={"python": "3.11"})
    made = {"cpu": model.Bootstrap("docker", image=image)}
    base = model.Layer("other", "a base", HERE, bootstrap=made, content=content)
    recipe = PLAIN.recipe._replace(base=model.LayerUse("other", HERE))
    return PLAIN._replace(recipe=recipe, more=(base,))


RENAMED = PLAIN.with_layer(name="other").with_layers("lower", "other", "beside", "above")
MORE = PLAIN._replace(more=(compiling("more"),)).with_layers("lower", "more", *STACK[1:])
VERSIONED = PLAIN.with_layer(parameters=LAYER.parameters)
NEWER = VERSIONED._replace(options=("tool.version=2.0",))
SAME = VERSIONED._replace(options=("tool.version=1.0",))
ROCM = PLAIN._replace(platform=PLAIN.platform._replace(accelerator="rocm"))
OTHER_BASE = based("a")
PROFILE_S_BASE = OTHER_BASE._replace(
    recipe=PLAIN.recipe, profile=PLAIN.profile._replace(base=OTHER_BASE.recipe.base)
)
EMPTY, WHY = model.Variant(), "not here"
CASES = {
    "layer's name": (STEP, PLAIN, RENAMED),
    "one more layer below": (INSTALL, PLAIN, MORE),
    "variant's omit": (STEP, variants(EMPTY), variants(model.Variant(omit=WHY))),
    "provider's omit": (STEP, provided(model.Provider()), provided(model.Provider(omit=WHY))),
    "requires": (STEP, PLAIN, PLAIN.with_layer(requires=())),
    "variant's requires": (STEP, variants(EMPTY), variants(model.Variant(requires=LOWER))),
    "requires where nothing is compiled": (NOTHING, installing(), installing(*LOWER)),
    "empty variant": (NOTHING, PLAIN, PLAIN.with_layer(variants={"cpu": EMPTY})),
    "variant's script": (INSTALL, *swapped("install")),
    "variant's compiler": (STEP, *swapped("compile")),
    "parameter's name": (STEP, parameters("a"), parameters("b")),
    "one more parameter": (STEP, parameters("a"), parameters("a", "b")),
    "order of parameters": (NOTHING, parameters("a", "b"), parameters("b", "a")),
    "parameter's type": (STEP, parameters("a"), parameters("a", type="integer", default=7)),
    "variable's name": (STEP, environment(A="1"), environment(B="1")),
    "order of variables": (NOTHING, environment(A="1", B="2"), environment(B="2", A="1")),
    "index": (STEP, index("a"), index("b")),
    "option": (STEP, VERSIONED, NEWER),
    "option with the same value": (RECORD, VERSIONED, SAME),
    "accelerator": (RECORD, PLAIN, ROCM),
    "recipe's base": (BASE, PLAIN, OTHER_BASE),
    "profile's base": (BASE, PLAIN, PROFILE_S_BASE),
    "image": (BASE, OTHER_BASE, based("b")),
    "version's image": (BASE, based("a", version="b"), based("a", version="c")),
}


@pytest.mark.parametrize(("effect", "before", "after"), CASES.values(), ids=CASES)
def test_what_other_changes_rebuild(effect: str, before: World, after: World) -> None:
    check_rebuilt(effect, before.plan(), after.plan())
