"""What a command line says that its command does not know."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from onmt_exhird.bridge.configs import origin
from onmt_exhird.bridge.options import closest, nearest
from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.bridge.usage import OPTIONS, is_ours, uses_the_plug_in, warn


def split(unknown: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options among the arguments that a parser did not know, with their values, and the stray values.

    What follows an unknown option is taken for its value. From YAML an unknown key comes as one argument.

    >>> split(["true", "-dump_fields", "3", "--lerning_rate=1"])
    ({'dump_fields': '3', 'lerning_rate': '1'}, ['true'])
    """
    options: dict[str, str] = {}
    strays: list[str] = []
    open_name = ""
    for item in unknown:
        if re.match("--?[A-Za-z]", item):
            name, sign, value = item.lstrip("-").partition("=")
            options[name] = value
            open_name = "" if sign else name
        elif open_name:
            options[open_name] = f"{options[open_name]} {item}".lstrip()
        else:
            strays.append(item)
    return options, strays


def names_of(parser: argparse.ArgumentParser) -> set[str]:
    return {option.lstrip("-") for action in parser._actions for option in action.option_strings}


def known_elsewhere(parser: Any) -> set[str]:
    """The options of the command that commonly shares its YAML file with this one."""
    if parser.also_known_to is None:
        return set()
    other = type(parser)()
    parser.also_known_to(other)
    return names_of(other)


def describe(parser: Any, names: Sequence[str], known: set[str]) -> str:
    """The sentence on unknown options, with the nearest valid one of each."""
    return "; ".join(f"unknown option '{name}'{origin(parser, name)}{nearest(name, known)}" for name in names)


def is_our_run(parser: Any, namespace: argparse.Namespace, others: dict[str, str], names: Sequence[str]) -> bool:
    """Whether a run uses the plug-in, by all it says: by its options, by others, and by names meant to be ours."""
    said = {item.lstrip("-").split("=")[0] for item in sys.argv[1:] if item.startswith("-")}
    said |= parser._config_file_parser.origins.keys()
    meant = {closest(name, names_of(parser) | OPTIONS) for name in names}
    if OPTIONS & (said | meant) or parser._config_file_parser.inherited or uses_the_plug_in(others | vars(namespace)):
        return True
    checkpoint = getattr(namespace, "train_from", "")
    return bool(checkpoint) and is_ours(checkpoint)


def judge(parser: Any, namespace: argparse.Namespace, unknown: Sequence[str]) -> None:
    """Stop for an unknown option in a run that uses the plug-in; warn in any other, and of stray values."""
    options, strays = split(unknown)
    if strays:
        warn(f"ignored, since it belongs to no option: {' '.join(strays)}")
    elsewhere = known_elsewhere(parser)
    names = [name for name in options if not any(option.startswith(name) for option in elsewhere)]
    if not names:
        return
    message = describe(parser, names, names_of(parser) | elsewhere)
    if is_our_run(parser, namespace, options, names):
        parser.error(message)
    warn(f"{message} (ignored, as OpenNMT-py does)")


def is_a_command(caller: FrameType) -> bool:
    """Whether a frame is the `main` of one of upstream's commands, started as a script, a module or a file."""
    import onmt

    folder = os.path.join(os.path.dirname(onmt.__file__), "bin")
    return caller.f_code.co_name == "main" and os.path.dirname(caller.f_code.co_filename) == folder


def say_what_is_unknown(parse: Upstream) -> None:
    """Upstream's onmt_train and onmt_build_vocab ignore what they do not know, a misspelt YAML key too.

    Its onmt_translate refuses it without a hint. Only commands are judged: whoever calls a parser from Python gets what
    upstream gives. The class is changed in place, since other modules may hold it already.
    """
    parser_class = parse.ArgumentParser
    parse_known_args, get_option_tuples = parser_class.parse_known_args, parser_class._get_option_tuples

    def known_args(self: Any, *args: Any, **kwargs: Any) -> tuple[argparse.Namespace, list[str]]:
        namespace, unknown = parse_known_args(self, *args, **kwargs)
        if unknown and is_a_command(sys._getframe(1)):
            judge(self, namespace, unknown)
        return namespace, unknown

    def all_args(self: Any, *args: Any, **kwargs: Any) -> argparse.Namespace:
        namespace, unknown = parse_known_args(self, *args, **kwargs)
        if unknown:
            options, strays = split(unknown)
            message = describe(self, list(options), names_of(self)) or f"unrecognized arguments: {' '.join(strays)}"
            if not self.exit_on_error:
                raise argparse.ArgumentError(None, message)
            self.error(message)
        return namespace

    def upstreams_before_ours(self: Any, option_string: str) -> list[Any]:
        """What was an abbreviation of one option stays so beside ours."""
        found = get_option_tuples(self, option_string)
        theirs = [match for match in found if match[0].dest not in OPTIONS]
        return theirs or found

    parser_class.also_known_to = None
    parser_class.parse_known_args, parser_class.parse_args = known_args, all_args
    parser_class._get_option_tuples = upstreams_before_ours
