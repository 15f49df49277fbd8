"""sushy, OpenStack's Redfish library, drives a simulated BMC; prints as JSON what it was told.

sushy_drives.py URL CA USER IMAGE TARGET ATTRIBUTE VALUE: the password comes from SIM_PASSWORD; TARGET is the boot override target of
the virtual CD, and ATTRIBUTE the firmware setting that is changed to VALUE.
"""

import json
import os
import sys
import time

import sushy
from sushy.resources.system import constants as system_constants

URL, CA, USER, IMAGE, TARGET, ATTRIBUTE, VALUE = sys.argv[1:]


def attempt(act):
    """What a refusal is, by its class."""
    try:
        return act()
    except sushy.exceptions.SushyError as error:
        return {"error": type(error).__name__}


def value(enum):
    return getattr(enum, "value", enum)


def until_power(system, wanted):
    end = time.monotonic() + 60
    while True:
        system.refresh(force=True)
        if system.power_state == wanted:
            return value(system.power_state)
        if time.monotonic() > end:
            return f"still {system.power_state}"
        time.sleep(0.05)


root = sushy.Sushy(URL, username=USER, password=os.environ["SIM_PASSWORD"], verify=CA)
told = {}
system = root.get_system()
manager = root.get_manager()
told["identity"] = {
    "manufacturer": system.manufacturer,
    "model": system.model,
    "serial": system.serial_number,
    "uuid": system.uuid,
    "bmc_firmware": manager.firmware_version,
}
interfaces = system.ethernet_interfaces
told["macs"] = sorted(interfaces.summary) if interfaces else []

told["power"] = [value(system.power_state)]
system.reset_system(sushy.ResetType.ON)
told["power"].append(until_power(system, sushy.PowerState.ON))
system.reset_system(sushy.ResetType.FORCE_OFF)
told["power"].append(until_power(system, sushy.PowerState.OFF))

target = system_constants.BootSource(TARGET)
told["allowed"] = target in system.get_allowed_system_boot_source_values()
told["boot"] = {}
for enabled in (sushy.BootSourceOverrideEnabled.ONCE, sushy.BootSourceOverrideEnabled.CONTINUOUS):
    done = attempt(lambda: system.set_system_boot_options(target, enabled=enabled))
    system.refresh(force=True)
    boot = system.boot
    told["boot"][value(enabled)] = done or [value(boot["target"]), value(boot["enabled"])]

media = None
for holder in (manager, system):
    collection = attempt(lambda: holder.virtual_media)
    if not hasattr(collection, "get_members"):
        continue
    for member in collection.get_members():
        if sushy.VirtualMediaType.CD in member.media_types and media is None:
            media = member
told["media"] = {"slot": media.identity}


def slot():
    media.refresh(force=True)
    return [media.image or "", bool(media.inserted)]


told["media"]["empty"] = slot()
told["media"]["insert"] = attempt(lambda: media.insert_media(IMAGE, write_protected=True)) or slot()
told["media"]["eject"] = attempt(media.eject_media)
end = time.monotonic() + 30
while slot()[1] and time.monotonic() < end:
    time.sleep(0.1)
told["media"]["ejected"] = slot()[1]

bios = attempt(lambda: system.bios)
told["bios"] = None
if hasattr(bios, "attributes"):
    told["bios"] = [bios.attributes.get(ATTRIBUTE)]
    done = attempt(lambda: bios.set_attribute(ATTRIBUTE, VALUE))
    bios.refresh(force=True)
    told["bios"].append(done or bios.pending_attributes.get(ATTRIBUTE))

secure = attempt(lambda: system.secure_boot)
told["secure_boot"] = None
if hasattr(secure, "enabled"):
    before = secure.enabled
    done = attempt(lambda: secure.set_enabled(not before))
    secure.refresh(force=True)
    told["secure_boot"] = [before, done or secure.enabled]

print(json.dumps(told))
