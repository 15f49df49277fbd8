"""Which options Ironic declares, and what it makes of settings files.

Reads {"files": [path, ...]} as JSON; writes {"options": [...]} with the value of each.
"""
import json
import logging
import math
import sys
import warnings

from oslo_config import cfg
from oslo_config import types

import ironic.conf

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")


def kind(opt):
    kind = opt.type
    if getattr(opt, "multi", False):
        return ["dicts"] if isinstance(kind, types.Dict) else ["texts"]
    if isinstance(kind, types.Boolean):
        return ["boolean"]
    if isinstance(kind, types.Integer):
        return ["whole", kind.min, kind.max]
    if isinstance(kind, types.Float):
        return ["fraction", kind.min]
    if isinstance(kind, types.List):
        return ["list"]
    if isinstance(kind, types.Dict):
        return ["dict"]
    if isinstance(kind, types.URI):
        return ["uri"]
    if isinstance(kind, types.HostAddress):
        return ["host"]
    choices = getattr(kind, "choices", None)
    return ["choice", *choices] if choices else ["text"]


def main():
    asked = json.load(sys.stdin)
    arguments = [argument for path in asked["files"] for argument in ("--config-file", path)]
    conf = ironic.conf.CONF
    conf(args=arguments, project="ironic", default_config_files=[], default_config_dirs=[], use_env=False)
    groups = [("DEFAULT", conf, conf._opts)]
    groups += [(name, conf[name], group._opts) for name, group in sorted(conf._groups.items())]
    options = []
    for group, holder, infos in groups:
        for name, info in sorted(infos.items()):
            opt = info["opt"]
            try:
                value = {"value": holder[name]}
            except (cfg.Error, ValueError) as error:
                value = {"refused": repr(error)}
            if isinstance(value.get("value"), float) and not math.isfinite(value["value"]):
                value["value"] = str(value["value"])
            options.append({
                "group": group,
                "name": name,
                "kind": kind(opt),
                "secret": bool(opt.secret),
                "others": [[other.group or group, other.name or name] for other in opt.deprecated_opts],
                **value,
            })
    json.dump({"options": options}, sys.stdout, default=str)


main()
