"""A long proof of uv is cut where a reader can follow it."""

from lumicontainer.extending.resolving import causes


def test_a_proof_is_cut_between_its_sentences_alone() -> None:
    long = " ".join(
        f"Because a=={n} depends on b and c, we can conclude that x." for n in range(40)
    )
    shown = causes.shorten(
        f"{long} And because you require a, nothing fits.\n\nhint: Pre-releases …"
    )
    assert len(shown.splitlines()) <= 10
    assert shown.startswith("Because a==")
    assert shown.endswith("And because you require a, nothing fits.")


def test_a_cut_proof_begins_with_a_reason() -> None:
    step = "And because we know from ({n}) that b, we can conclude that c. ({n})"
    steps = " ".join(step.format(n=n) for n in range(20))
    shown = causes.shorten(f"{steps} Because a needs d, nothing fits.")
    assert shown == "Because a needs d, nothing fits."
    # What a number names is not shown.
    last = "Because a needs d and we know from (1) that e, f. (21)"
    assert causes.shorten(f"{steps} {last}") == "Because a needs d and we know that e, f."
