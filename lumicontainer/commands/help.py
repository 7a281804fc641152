"""``lumicontainer help``: what ``--help`` prints, of all verbs or of one."""

import argparse

from lumicontainer.commands.parser import VERBS, make_parser, unknown_verb


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the words that name a verb."""
    parser.add_argument("verb_words", metavar="VERB", nargs="*", help="default: all verbs")


def run(arguments: argparse.Namespace) -> None:
    """Print the help; argparse then exits."""
    words = arguments.verb_words
    if words and words[0] not in VERBS:
        raise unknown_verb(words[0])
    make_parser(words[:1]).parse_args([*words, "--help"])
