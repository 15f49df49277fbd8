"""proliantutils drives a simulated iLO 4 by RIBCL or by RIS and prints, as JSON, what it was told.

Arguments: `ribcl` or `ris`, port, user, CA file, URL of an ISO. The password is in the environment as SIM_PASSWORD.
"""
import json
import os
import sys
import time

from proliantutils import exception
from proliantutils.ilo import ribcl, ris

way, port, user, ca, iso = sys.argv[1:6]
password = os.environ["SIM_PASSWORD"]


def client(password):
    if way == "ribcl":
        return ribcl.RIBCLOperations("127.0.0.1", user, password, port=int(port), cacert=ca)
    return ris.RISOperations("127.0.0.1:" + port, user, password, cacert=ca)


def refused(call, *arguments):
    try:
        return {"done": call(*arguments)}
    except exception.ProliantUtilsException as error:
        return {"error": type(error).__name__, "about": str(error)}


def until_power(ilo, state):
    end = time.monotonic() + 60
    while ilo.get_host_power_status() != state:
        if time.monotonic() > end:
            raise SystemExit("never " + state)
        time.sleep(0.1)
    return state


def once(ilo, device):
    ilo.set_one_time_boot(device)
    return ilo.get_one_time_boot()


def persistent(ilo, device):
    ilo.update_persistent_boot([device])
    return ilo.get_persistent_boot_device()


ilo = client(password)
told = {"product": ilo.get_product_name(), "power": [ilo.get_host_power_status()]}
if way == "ribcl":
    ilo.init_model_based_tags(told["product"])
    told["licence"] = ilo.get_all_licenses()["LICENSE_TYPE"]
told["firmware"] = ilo.get_ilo_firmware_version_as_major_minor()
told["empty"] = ilo.get_vm_status("CDROM")
ilo.insert_virtual_media(iso, "CDROM")
told["inserted"] = ilo.get_vm_status("CDROM")
ilo.set_vm_status("CDROM", "BOOT_ONCE", "YES")
told["once"] = ilo.get_vm_status("CDROM")
ilo.insert_virtual_media(iso, "CDROM")
told["again"] = ilo.get_vm_status("CDROM")
ilo.eject_virtual_media("CDROM")
told["ejected"] = ilo.get_vm_status("CDROM")
told["missing_image"] = refused(ilo.insert_virtual_media, iso + ".gone", "CDROM")
told["one_time"] = [ilo.get_one_time_boot()] + [once(ilo, device) for device in ("CDROM", "NETWORK", "HDD")]
told["persistent"] = [persistent(ilo, device) for device in ("CDROM", "NETWORK", "HDD")]
told["mode"] = [ilo.get_current_boot_mode(), ilo.get_pending_boot_mode()]
ilo.set_pending_boot_mode("legacy")
told["mode"].append(ilo.get_pending_boot_mode())
ilo.set_pending_boot_mode("uefi")
told["mode"].append(ilo.get_pending_boot_mode())
told["supported"] = ilo.get_supported_boot_mode()
ilo.set_host_power("ON")
told["power"].append(until_power(ilo, "ON"))
told["on_again"] = ilo.set_host_power("ON")
told["reset"] = ilo.reset_server()
ilo.hold_pwr_btn()
told["power"].append(until_power(ilo, "OFF"))
if way == "ris":
    told["post"] = ilo.get_host_post_state()
    told["bios"] = ilo.get_pending_bios_settings()["BootMode"]
    told["secure_boot"] = ilo.get_secure_boot_mode()
told["wrong_password"] = refused(client("wrong").get_product_name)
print(json.dumps(told))
