"""{{name}}: which backend takes an artefact."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.backend_selection import Choice
from wit_world.imports import config
from wit_world.imports.types import Detail, Error_Other


class BackendSelection(exports.BackendSelection):
    def select(self, node, request, candidates):
        # Settings are JSON text.
        preferred = json.loads(config.get("/prefer") or "null")
        usable = [
            candidate
            for candidate in candidates
            if candidate.healthy and (candidate.free_bytes is None or candidate.free_bytes >= request.size)
        ]
        for candidate in usable:
            if candidate.id == preferred:
                return Choice(candidate.id, "preferred by the site")
        if usable:
            return Choice(usable[0].id, "first healthy backend with room")
        raise Err(Error_Other(Detail("no-backend", f"no healthy backend has room for {request.size} bytes", None)))
