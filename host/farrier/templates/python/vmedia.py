"""{{name}}: how media get into a server's slots.

One function is its own: an empty slot is not ejected, since some BMCs answer that with an error. All others go to the next
plugin down the chain, whose last is Farrier's own.
"""

from wit_world import exports
from wit_world.imports import bmc, log
from wit_world.imports import vmedia_service as next_plugin


class Vmedia(exports.Vmedia):
    def detach(self, node, device):
        if not bmc.media_state(node, device).inserted:
            log.event(log.Level.INFO, "the slot is empty already", [])
            return
        next_plugin.detach(node, device)

    def prepare_ramdisk(self, node, parameters):
        next_plugin.prepare_ramdisk(node, parameters)

    def clean_up_ramdisk(self, node):
        next_plugin.clean_up_ramdisk(node)

    def prepare_instance(self, node):
        next_plugin.prepare_instance(node)

    def clean_up_instance(self, node):
        next_plugin.clean_up_instance(node)

    def attach(self, node, device, location):
        next_plugin.attach(node, device, location)

    def boot_into_iso(self, node, iso):
        next_plugin.boot_into_iso(node, iso)
