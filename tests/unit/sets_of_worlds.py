"""Changes of what a layer is put together from, and of profiles; see ``worlds``."""

from collections.abc import Callable, Mapping
from typing import Any

from lumicontainer.core.model import (
    Bootstrap,
    Content,
    LayerFile,
    LayerUse,
    Parameter,
    Profile,
    Provider,
    Source,
    Variant,
)
from lumicontainer.core.yaml.nodes import Scalar
from lumicontainer.core.yaml.readers import Text
from lumicontainer.core.yaml.validators import COMPILE

from .worlds import BASE_LAYER, HERE, Change, World, made


def fetched_field(source: Source, **changes: Any) -> Change:
    """Change a field of the only source that a layer fetches; all of its steps use it."""

    def change(world: World, number: int, word: str) -> tuple[World, World]:
        files = (*world.layers[number].files, LayerFile("use.sh", 0o644, b'ls "$sources"\n'))
        one, other = (
            world.with_layer(number, content=Content(sources=(each,)), files=files)
            for each in (source, source._replace(**made(changes, word)))
        )
        return one, other

    return change


def _table(
    name: str, before: Mapping[str, Any], more: Callable[[str], Mapping[str, Any]]
) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        one = world.with_layer(number, **{name: before})
        return one, one.with_layer(number, **{name: {**before, **more(word)}})

    return change


def versions(more: Callable[[str], Mapping[str, Content]]) -> Change:
    return _table("versions", {"1.0": Content()}, more)


def providers(more: Callable[[str], Mapping[str, Provider]]) -> Change:
    return _table("providers", {"first": Provider(), "second": Provider()}, more)


def other_script(key: str) -> Change:
    """Let two accelerators run each the other's script."""

    def change(world: World, number: int, word: str) -> tuple[World, World]:
        files = world.layers[number].files
        files += tuple(LayerFile(f"{each}.sh", 0o644, each.encode()) for each in ("one", "two"))
        one, two = (Variant(**{key: f"{each}.sh"}) for each in ("one", "two"))
        before = world.with_layer(number, files=files, variants={"cpu": one, "rocm": two})
        return before, before.with_layer(number, variants={"cpu": two, "rocm": one})

    return change


def file_of_another(name: str) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        files = (*world.layers[number].files, LayerFile(name, 0o644, word.encode()))
        return world, world.with_layer(number, files=files)

    return change


def other_needs(world: World, number: int, word: str) -> tuple[World, World]:
    """Of a layer that compiles nothing, what its variant requires decides nothing."""
    files = tuple(file for file in world.layers[number].files if file.name != COMPILE)
    before = world.with_layer(number, files=files, requires=(), variants={"cpu": Variant()})
    return before, before.with_layer(number, variants={"cpu": Variant(requires=("tiny",))})


def image_of_a_version(world: World, number: int, word: str) -> tuple[World, World]:
    docked = {"cpu": Bootstrap("docker", image="debian:bookworm")}
    version = (Parameter("version", "string", "1.0", HERE),)
    one, other = (
        world.with_layer(0, bootstrap=docked, parameters=version, versions={"1.0": content})
        for content in (Content(), Content(image=word))
    )
    return one, other


PROFILE = Profile("set", "a set", HERE, "cpu")


def with_profile(world: World, profile: Profile) -> World:
    recipe = world.recipe._replace(profiles=(Text.at(HERE, profile.name),))
    return world._replace(recipe=recipe, profiles=(profile,))


def profile_field(**changes: Any) -> Change:
    """Change a field of the profile that the recipe names."""

    def change(world: World, number: int, word: str) -> tuple[World, World]:
        other = BASE_LAYER.bootstrap["cpu"]._replace(release="other")
        world = world._replace(
            layers=(*world.layers, BASE_LAYER._replace(name="other", bootstrap={"cpu": other})),
        )
        if "base" in changes:
            for at, layer in enumerate(world.layers):
                requires = tuple(name for name in layer.requires if name != "tiny")
                world = world.with_layer(at, requires=requires)
        return with_profile(world, PROFILE), with_profile(
            world, PROFILE._replace(**made(changes, word))
        )

    return change


def named_by_the_recipe(world: World, number: int, word: str) -> tuple[World, World]:
    return world, with_profile(world, PROFILE)


def named_by_the_platform(world: World, number: int, word: str) -> tuple[World, World]:
    before = world._replace(profiles=(PROFILE,))
    return before, before._replace(platform=world.platform._replace(profile=PROFILE.name))


def profile_values(world: World, number: int, word: str) -> tuple[World, World]:
    """Let a profile give a layer a value, and a layer that is not in the recipe."""
    node = Scalar(HERE, word, plain=False)
    uses = (LayerUse(world.layers[number].name, HERE, {"level": node}), LayerUse("tiny", HERE))
    return with_profile(world, PROFILE), with_profile(world, PROFILE._replace(values=uses))
