"""Host lists of 3,000 hosts each, in every form that Slurm or a user writes them."""


def joined(form: str, count: int) -> str:
    """Return a list of so many items, of which ``n`` is the number and ``m`` the one after it."""
    return ",".join(form.format(n=number, m=number + 1) for number in range(count))


USUAL = (
    "nid[005001-008000]",
    "r[1-50]n[1-60]",
    f"nid[{joined('{n:06}', 3000)}]",
    joined("nid{n:06}", 3000),
    joined("n[{n}]", 3000),
)
ODD = (
    f"nid[{joined('{n:06}-{n:06}', 3000)}]",
    joined("nid[{n:06}-{n:06}].site", 3000),
    joined("r[{n}]n[{n}]", 3000),
    joined("r[{n}-{n}]n[{n}-{n}]", 3000),
    joined("a[1-2]", 1500),
    joined("nid[{n:06}-{m:06}]", 1500),
    joined("a[1-2]b[{n}]", 1500),
    joined("a[1-2]b[{n}-{m}]", 750),
    joined("a[1-2]b[{n},{m}]c[1-2]-ib", 375),
)
"""What Slurm itself would write shorter: these take the longest."""
