"""python-hpilo drives a simulated iLO by RIBCL and prints, as JSON, what it was told.

Arguments: port, user, URL of an ISO, URL of a floppy image. The password is in the environment as SIM_PASSWORD.
"""
import json
import os
import ssl
import sys
import time
import warnings

import hpilo

port, user, iso, floppy = sys.argv[1:5]
password = os.environ["SIM_PASSWORD"]


def client(password, protocol=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # Python's own bounds would keep it from what it is made for.
    warnings.simplefilter("ignore")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return hpilo.Ilo("127.0.0.1", user, password, timeout=60, port=int(port), protocol=protocol, ssl_context=context)


def code_of(call, *arguments, **named):
    try:
        return {"done": call(*arguments, **named)}
    except hpilo.IloError as error:
        return {"error": type(error).__name__, "code": error.errorcode}


def warned(call, *arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments)
    return [str(warning.message) for warning in caught if warning.category is hpilo.IloWarning]


def until_power(ilo, state):
    end = time.monotonic() + 60
    while ilo.get_host_power_status() != state:
        if time.monotonic() > end:
            raise SystemExit("never " + state)
        time.sleep(0.1)
    return state


def media(ilo, device, url):
    told = {"empty": ilo.get_vm_status(device)}
    ilo.insert_virtual_media(device, url)
    told["inserted"] = ilo.get_vm_status(device)
    ilo.set_vm_status(device, "connect", True)
    told["connected"] = ilo.get_vm_status(device)
    ilo.set_vm_status(device, "no_boot", False)
    told["no_boot"] = ilo.get_vm_status(device)
    ilo.set_vm_status(device, "boot_once", True)
    told["once"] = ilo.get_vm_status(device)
    ilo.insert_virtual_media(device, url + ".other")
    told["over"] = ilo.get_vm_status(device)
    ilo.eject_virtual_media(device)
    told["ejected"] = ilo.get_vm_status(device)
    told["again"] = code_of(ilo.eject_virtual_media, device)
    return told


def order(ilo, devices):
    ilo.set_persistent_boot(devices)
    return ilo.get_persistent_boot()


def once(ilo, device):
    ilo.set_one_time_boot(device)
    return ilo.get_one_time_boot()


def everything(ilo):
    told = {
        "firmware": ilo.get_fw_version(),
        "product": ilo.get_product_name(),
        "licences": ilo.get_all_licenses(),
        "host": ilo.get_host_data(),
        "network": ilo.get_network_settings()["ip_address"],
        "user": ilo.get_user(user),
        "stranger": code_of(ilo.get_user, "nobody"),
        "media": {"CDROM": media(ilo, "CDROM", iso), "FLOPPY": media(ilo, "FLOPPY", floppy)},
        "no_device": code_of(ilo.get_vm_status, "TAPE"),
        "no_option": code_of(ilo.set_vm_status, "CDROM", "boot_never"),
        "connect_nothing": code_of(ilo.set_vm_status, "CDROM", "connect"),
        "normal": ilo.get_one_time_boot(),
        "once": [once(ilo, device) for device in ("cdrom", "network", "hdd", "normal")],
        "order": ilo.get_persistent_boot(),
        "supported": code_of(ilo.get_supported_boot_mode),
        "mode": code_of(ilo.get_current_boot_mode),
    }
    names = ["hdd", "cdrom", "network", "usb"]
    told["reordered"] = order(ilo, names)
    if "done" in told["mode"]:
        ilo.set_pending_boot_mode("legacy")
        told["pending"] = ilo.get_pending_boot_mode()
        ilo.set_pending_boot_mode("uefi")
    told["power"] = [ilo.get_host_power_status()]
    told["reset_off"] = code_of(ilo.reset_server)
    ilo.set_host_power(True)
    told["power"].append(until_power(ilo, "ON"))
    told["on_again"] = warned(ilo.set_host_power, True)
    told["reset"] = warned(ilo.reset_server)
    ilo.hold_pwr_btn(False)
    told["power"].append(until_power(ilo, "OFF"))
    told["hold_off"] = warned(ilo.hold_pwr_btn, False)
    told["uid"] = [ilo.get_uid_status()]
    ilo.uid_control("Yes")
    told["uid"].append(ilo.get_uid_status())
    return told


def little(ilo):
    """For an iLO 2, whose connections end a long time after each answer."""
    return {
        "firmware": ilo.get_fw_version(),
        "order": ilo.get_persistent_boot(),
        "once": once(ilo, "cdrom"),
    }


ilo = client(password)
told = little(ilo) if len(sys.argv) > 5 else everything(ilo)
told["protocol"] = {hpilo.ILO_HTTP: "http", hpilo.ILO_RAW: "raw"}[ilo.protocol]
if len(sys.argv) <= 5:
    told["wrong_password"] = code_of(client("wrong", ilo.protocol).get_fw_version)
print(json.dumps(told))
