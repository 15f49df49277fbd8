"""What oslo.config makes of settings files.

Reads {"options": [...], "cases": [[text, ...], ...]} as JSON and writes, for each case, either {"refused": "..."} if a file
cannot be read, or what each option is: {"group.name": {"value": ...}} or {"group.name": {"refused": "..."}}.
"""
import json
import logging
import math
import os
import sys
import tempfile

from oslo_config import cfg
from oslo_config import types

logging.disable(logging.CRITICAL)


def option(given):
    others = [cfg.DeprecatedOpt(name, group=group) for group, name in given["others"]]
    common = {"default": given["default"], "deprecated_opts": others}
    kind, *bounds = given["kind"]
    name = given["name"]
    if kind == "text":
        return cfg.StrOpt(name, **common)
    if kind == "choice":
        return cfg.StrOpt(name, choices=bounds, **common)
    if kind == "boolean":
        return cfg.BoolOpt(name, **common)
    if kind == "whole":
        return cfg.IntOpt(name, min=bounds[0], max=bounds[1], **common)
    if kind == "fraction":
        return cfg.FloatOpt(name, min=bounds[0], **common)
    if kind == "uri":
        return cfg.URIOpt(name, **common)
    if kind == "host":
        return cfg.HostAddressOpt(name, **common)
    if kind == "list":
        item = types.String(choices=bounds) if bounds else types.String()
        return cfg.ListOpt(name, item_type=item, **common)
    if kind == "dict":
        return cfg.DictOpt(name, **common)
    if kind == "texts":
        return cfg.MultiStrOpt(name, **common)
    if kind == "dicts":
        return cfg.MultiOpt(name, item_type=types.Dict(), **common)
    raise ValueError(kind)


def answer(options, texts):
    with tempfile.TemporaryDirectory() as folder:
        arguments = []
        for place, text in enumerate(texts):
            path = os.path.join(folder, f"{place}.conf")
            with open(path, "wb") as file:
                file.write(text.encode())
            arguments += ["--config-file", path]
        conf = cfg.ConfigOpts()
        for given in options:
            group = None if given["group"] == "DEFAULT" else given["group"]
            conf.register_opt(option(given), group=group)
        try:
            conf(args=arguments, project="oracle", default_config_files=[], default_config_dirs=[], use_env=False)
        except (cfg.Error, UnicodeError, SystemExit) as error:
            return {"refused": str(error)}
        values = {}
        for given in options:
            holder = conf if given["group"] == "DEFAULT" else conf[given["group"]]
            key = given["group"] + "." + given["name"]
            try:
                value = holder[given["name"]]
                # JSON has no infinity.
                infinite = isinstance(value, float) and not math.isfinite(value)
                values[key] = {"value": str(value) if infinite else value}
            except (cfg.Error, ValueError, RecursionError, KeyError) as error:
                values[key] = {"refused": repr(error)}
        return values


def main():
    asked = json.load(sys.stdin)
    json.dump([answer(asked["options"], texts) for texts in asked["cases"]], sys.stdout)


main()
