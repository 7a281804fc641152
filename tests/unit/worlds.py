"""Worlds from which plans are made, and changes of them: each gives a world before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from lumicontainer.core.model import (
    Bootstrap,
    Checks,
    Content,
    Layer,
    LayerFile,
    LayerUse,
    Packages,
    Parameter,
    Platform,
    Profile,
    Recipe,
    SdistSource,
    Variant,
)
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.decisions import Materials
from lumicontainer.core.resolve.resolve import resolve
from lumicontainer.core.yaml.nodes import Scalar
from lumicontainer.core.yaml.validators import COMPILE, SCRIPT
from lumicontainer.errors import Place

HERE, THERE = Place("here.yaml", 1), Place("there.yaml", 7, 3)
UNUSED = "unused"
"""A layer that every catalog has and no recipe names."""


class World(NamedTuple):
    """Hold all from which a plan is made; the base stands first of the layers."""

    recipe: Recipe
    layers: tuple[Layer, ...]
    platform: Platform
    inside: tuple[LayerFile, ...] = (LayerFile("a.py", 0o644, b"1\n"),)
    options: tuple[str, ...] = ()
    profiles: tuple[Profile, ...] = ()
    image_checks: Checks = Checks()

    def plan(self) -> Plan:
        by_name = {layer.name: layer for layer in self.layers}
        asked = self.recipe.profiles or self.platform.profile
        fits = (each for each in self.profiles if each.accelerator == self.platform.accelerator)
        profile = next(fits, None) if asked else None
        materials = Materials(
            self.recipe,
            self.platform,
            ((profile and profile.base) or self.recipe.base, *self.recipe.layers),
            by_name,
            [*by_name, UNUSED],
            profile,
            self.image_checks,
        )
        return make_plan(resolve(materials, self.options), self.inside)

    def with_layer(self, number: int, **changes: Any) -> World:
        changed = self.layers[number]._replace(**changes)
        return self._replace(layers=(*self.layers[:number], changed, *self.layers[number + 1 :]))

    def with_use(self, number: int, use: LayerUse) -> World:
        uses = [use if at == number - 1 else old for at, old in enumerate(self.recipe.layers)]
        return self._replace(recipe=self.recipe._replace(layers=tuple(uses)))


WORDS = ("alpha", "beta", "it's $(id)", "Ünï")
BASE_LAYER = Layer(
    "tiny",
    "the base",
    HERE,
    bootstrap=dict.fromkeys(
        ("cpu", "rocm"), Bootstrap("debootstrap", "bookworm", ("python3",), "debian:bookworm")
    ),
    content=Content(provides={"python": "3.11"}),
)


def random_layer(number: int, source: Random) -> Layer:
    files = [LayerFile(SCRIPT, 0o644, source.choice(WORDS).encode())]
    files.append(LayerFile("a.patch", 0o644, b"--- a"))
    if source.random() < 0.5:
        files.append(LayerFile(COMPILE, 0o644, source.choice(WORDS).encode()))
    below = ["tiny", *(f"layer{each}" for each in range(1, number))]
    return Layer(
        f"layer{number}",
        "one of the layers",
        HERE,
        requires=tuple(source.sample(below, source.randint(0, min(2, len(below))))),
        parameters=(
            Parameter("level", "string", source.choice(WORDS), HERE),
            Parameter("fast", "boolean", source.random() < 0.5, HERE),
            Parameter("version", "string", "1.0", HERE),
            Parameter("index", "string", "https://wheels.example/cpu", HERE),
        ),
        content=Content(
            packages=Packages(apt=("tar",), python=("six==1.0",)),
            sources=(SdistSource("numpy", "ab"),),
            environment={"MODE": source.choice(WORDS), "PLACE": "x"},
            path=("/opt/tool/bin",),
        ),
        files=tuple(files),
    )


def random_world(seed: int) -> tuple[World, int]:
    """Return a world of one to four layers, and the number of one of them."""
    source = Random(seed)
    count = source.randint(1, 4)
    layers = [random_layer(number, source) for number in range(1, count + 1)]
    uses = tuple(LayerUse(layer.name, HERE) for layer in layers)
    recipe = Recipe("image", "an image", HERE, LayerUse("tiny", HERE), uses, "text")
    platform = Platform("workstation", "any machine", "cpu", HERE)
    return World(recipe, (BASE_LAYER, *layers), platform), source.randint(1, count)


Change = Callable[[World, int, str], "tuple[World, World]"]


def made(changes: Mapping[str, Any], word: str) -> dict[str, Any]:
    """Return new values, of which some are made of a new word."""
    return {name: value(word) if callable(value) else value for name, value in changes.items()}


def layer_field(**changes: Any) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        return world, world.with_layer(number, **made(changes, word))

    return change


def content_field(name: str, more: Callable[[str], Any]) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        content = world.layers[number].content
        old = getattr(content, name)
        new = {**old, **more(word)} if isinstance(old, Mapping) else old + more(word)
        return world, world.with_layer(number, content=content._replace(**{name: new}))

    return change


def packages_field(kind: str) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        content = world.layers[number].content
        packages = content.packages._replace(**{kind: (*getattr(content, kind), word)})
        return world, world.with_layer(number, content=content._replace(packages=packages))

    return change


def source_field(name: str) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        content = world.layers[number].content
        source = content.sources[0]._replace(**{name: word})
        return world, world.with_layer(number, content=content._replace(sources=(source,)))

    return change


def parameter_field(which: int, **changes: Any) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        parameters = list(world.layers[number].parameters)
        parameters[which] = parameters[which]._replace(**made(changes, word))
        return world, world.with_layer(number, parameters=tuple(parameters))

    return change


def one_more_parameter(world: World, number: int, word: str) -> tuple[World, World]:
    more = Parameter(word, "boolean", False, HERE)
    parameters = (*world.layers[number].parameters, more)
    return world, world.with_layer(number, parameters=parameters)


def type_of_a_parameter(world: World, number: int, word: str) -> tuple[World, World]:
    one = Parameter("level", "string", "7", HERE)
    other = one._replace(type="integer", default=7)
    return world.with_layer(number, parameters=(one,)), world.with_layer(
        number, parameters=(other,)
    )


def file_field(file: str, **changes: Any) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        new = made(changes, word)
        files = world.layers[number].files
        changed = tuple(each._replace(**new) if each.name == file else each for each in files)
        return world, world.with_layer(number, files=changed)

    return change


def one_more_file(world: World, number: int, word: str) -> tuple[World, World]:
    files = (*world.layers[number].files, LayerFile(word, 0o644, b""))
    return world, world.with_layer(number, files=files)


def compile_script(world: World, number: int, word: str) -> tuple[World, World]:
    files = [file for file in world.layers[number].files if file.name != COMPILE]
    one, other = (LayerFile(COMPILE, 0o644, text.encode()) for text in ("make", word))
    return (
        world.with_layer(number, files=(*files, one)),
        world.with_layer(number, files=(*files, other)),
    )


def renamed(world: World, number: int, word: str) -> tuple[World, World]:
    old, new = world.layers[number].name, word
    after = world.with_layer(number, name=new)
    for at, layer in enumerate(after.layers):
        requires = tuple(new if name == old else name for name in layer.requires)
        after = after.with_layer(at, requires=requires)
    return world, after.with_use(number, LayerUse(new, HERE))


def one_more_layer(world: World, number: int, word: str) -> tuple[World, World]:
    more = world.layers[number]._replace(name=word, requires=())
    uses = (*world.recipe.layers[: number - 1], LayerUse(word, HERE))
    recipe = world.recipe._replace(layers=(*uses, *world.recipe.layers[number - 1 :]))
    return world, world._replace(recipe=recipe, layers=(*world.layers, more))


def no_need(world: World, number: int, word: str) -> tuple[World, World]:
    """Of a layer that compiles nothing, what it requires decides nothing."""
    files = tuple(file for file in world.layers[number].files if file.name != COMPILE)
    before = world.with_layer(number, files=files, requires=())
    return before, before.with_layer(number, requires=("tiny",))


def variant(accelerator: str, variant: Callable[[str], Variant]) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        before = world.with_layer(number, variants={"cpu": Variant(), "rocm": Variant()})
        variants = {**before.layers[number].variants, accelerator: variant(word)}
        return before, before.with_layer(number, variants=variants)

    return change


def omitted(world: World, number: int, word: str) -> tuple[World, World]:
    name = world.layers[number].name
    after = world.with_layer(number, variants={"cpu": Variant(omit=word)})
    for at, layer in enumerate(after.layers):
        after = after.with_layer(at, requires=tuple(n for n in layer.requires if n != name))
    return world, after


def bootstrap_field(of: str, **changes: Callable[[str], Any]) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        one = BASE_LAYER.bootstrap["cpu"]._replace(agent=of)
        other = one._replace(**made(changes, word))
        return world.with_layer(0, bootstrap={"cpu": one}), world.with_layer(
            0, bootstrap={"cpu": other}
        )

    return change


def recipe_field(**changes: Any) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        new = made(changes, word)
        return world, world._replace(recipe=world.recipe._replace(**new))

    return change


def platform_field(**changes: Any) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        new = made(changes, word)
        return world, world._replace(platform=world.platform._replace(**new))

    return change


def table_field(table: str, row: Any, **changes: Any) -> Change:
    """Change one field of the only row that a table of the platform has."""

    def change(world: World, number: int, word: str) -> tuple[World, World]:
        one, other = (
            world._replace(platform=world.platform._replace(**{table: (each,)}))
            for each in (row, row._replace(**made(changes, word)))
        )
        return one, other

    return change


def given_values(place: Place, *, value: str = "") -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        name = world.layers[number].name
        values = {"level": Scalar(place, value or word, plain=False)} if value != "-" else {}
        before = LayerUse(name, HERE, {"level": Scalar(HERE, "old", plain=False)})
        after = LayerUse(name, place, values or before.values)
        return world.with_use(number, before), world.with_use(number, after)

    return change


def other_base(world: World, number: int, word: str) -> tuple[World, World]:
    bootstrap = {"cpu": BASE_LAYER.bootstrap["cpu"]._replace(release=word)}
    base = BASE_LAYER._replace(name=word, bootstrap=bootstrap)
    before = world._replace(layers=(*world.layers, base))
    for at, layer in enumerate(before.layers):
        before = before.with_layer(at, requires=tuple(n for n in layer.requires if n != "tiny"))
    return before, before._replace(recipe=before.recipe._replace(base=LayerUse(word, HERE)))


def set_to_its_default(world: World, number: int, word: str) -> tuple[World, World]:
    layer = world.layers[number]
    return world, world._replace(options=(f"{layer.name}.version=1.0",))


def baked_in(world: World, number: int, word: str) -> tuple[World, World]:
    return world, world._replace(inside=(LayerFile("a.py", 0o644, word.encode()),))


def in_another_order(world: World, number: int, word: str) -> tuple[World, World]:
    layer = world.layers[number]
    environment = dict(reversed(layer.content.environment.items()))
    content = layer.content._replace(environment=environment)
    return world, world.with_layer(number, content=content, parameters=layer.parameters[::-1])
