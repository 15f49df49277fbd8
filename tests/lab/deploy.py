"""Deploys the test disk onto one QEMU machine, as a conductor would: the check that the lab's own parts work.

It serves lookup, heartbeat and the image itself, gives a dead conductor's address before its own, drives the ramdisk's
command API, lets the machine power off, and boots the disk that was written. Each claim that does not hold ends the run
with exit code 1 and the serial console.
"""

import argparse
import base64
import hashlib
import http.server
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request

TOKEN = "lab-token-of-at-least-thirty-two-characters"
MAC = "52:54:00:12:34:56"
NODE = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"


class Conductor(http.server.BaseHTTPRequestHandler):
    """Lookup, heartbeat and image; what it saw is in the class."""

    protocol_version = "HTTP/1.1"
    image = b""
    heartbeats = []
    refused = []

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == f"/v1/lookup?addresses={MAC}":
            node = {"uuid": NODE, "properties": {}, "instance_info": {}}
            self.reply(200, json.dumps({"config": {"heartbeat_timeout": 60, "agent_token": "******"}, "node": node}).encode())
        elif self.path == "/disk.img":
            self.reply(200, self.image, "application/octet-stream")
        else:
            self.refused.append(self.path)
            self.reply(404, b"{}")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        beat = json.loads(body)
        if self.path != f"/v1/heartbeat/{NODE}" or beat["agent_token"] != TOKEN or self.headers["Content-Type"] != "application/json":
            self.refused.append(self.path)
            self.reply(401, b"{}")
            return
        self.heartbeats.append((time.monotonic(), beat))
        self.reply(202)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Machine:
    """One QEMU process; its serial console is a file."""

    def __init__(self, lab, work, firmware, disk, extra):
        self.console = os.path.join(work, "serial")
        open(self.console, "wb").close()
        command = [lab["QEMU"]]
        for folder in lab["QEMU_DATA"].split(":"):
            command += ["-L", folder]
        command += ["-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc", "-accel", "tcg", "-m", "512", "-no-reboot"]
        command += ["-serial", f"file:{self.console}"]
        if firmware == "uefi":
            variables = os.path.join(work, "vars.fd")
            shutil.copy(lab["OVMF_VARS"], variables)
            command += ["-drive", f"if=pflash,format=raw,readonly=on,file={lab['OVMF_CODE']}"]
            command += ["-drive", f"if=pflash,format=raw,file={variables}"]
        command += ["-blockdev", f"driver=raw,node-name=disk,file.driver=file,file.filename={disk}"]
        command += ["-device", "virtio-blk-pci,drive=disk,bootindex=2"]
        self.started = time.monotonic()
        self.process = subprocess.Popen(command + extra, stdin=subprocess.DEVNULL)

    def serial(self):
        with open(self.console, "rb") as console:
            return console.read().decode("latin-1")

    def wait_for(self, what, condition, seconds=180):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return time.monotonic() - self.started
            if self.process.poll() is not None and not condition():
                raise AssertionError(f"QEMU ended with {self.process.returncode} before: {what}")
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {what}")

    def stop(self):
        self.process.kill()
        self.process.wait()


def call(agent, path, body=None):
    """(status, JSON) of one request to the agent."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(agent + path, data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def run_command(agent, name, params, wait):
    status, answer = call(agent, f"/v1/commands/?wait={wait}&agent_token={TOKEN}", {"name": name, "params": params})
    assert status == 200, (name, status, answer)
    return answer


def last_command(agent):
    status, answer = call(agent, "/v1/commands/")
    assert status == 200, (status, answer)
    return answer["commands"][-1]


def finished(agent, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        last = last_command(agent)
        if last["command_status"] != "RUNNING":
            return last
        time.sleep(0.2)
    raise AssertionError(f"still running after {seconds} s: {last}")


def drive(agent, disk, url, digest):
    """Every command that a conductor sends, and the answers to what it should not send."""
    status, answer = call(agent, "/v1/status")
    assert status == 200 and answer["started_at"] > 0, answer
    wrong = {"name": "standby.sync", "params": {}}
    assert call(agent, "/v1/commands/?wait=true&agent_token=wrong", wrong)[0] == 401
    assert call(agent, "/v1/commands/?wait=true", wrong)[0] == 401
    assert call(agent, f"/v1/commands/?agent_token={TOKEN}", b"{nonsense")[0] == 400
    assert call(agent, f"/v1/commands/?agent_token={TOKEN}", {"name": "standby.sync"})[0] == 400

    answer = run_command(agent, "clean.get_clean_steps", {"node": {}, "ports": []}, "true")
    assert answer["command_name"] == "get_clean_steps" and answer["command_error"] is None, answer
    step = answer["command_result"]["clean_steps"]["FarrierHardwareManager"][0]
    answer = run_command(agent, "clean.execute_clean_step", {"step": step, "node": {}, "ports": []}, "false")
    done = finished(agent)
    assert done["id"] == answer["id"] and done["command_status"] == "SUCCEEDED", done
    assert done["command_result"]["clean_step"]["step"] == "erase_devices_metadata", done
    with open(disk, "rb") as content:
        content.seek(0)
        assert content.read(1 << 20) == bytes(1 << 20), "the first MiB is not wiped"
        assert content.read(1 << 20) == b"\xff" * (1 << 20), "more than the first MiB was wiped"
        content.seek(-(1 << 20), os.SEEK_END)
        assert content.read() == bytes(1 << 20), "the last MiB is not wiped"

    answer = run_command(agent, "deploy.get_deploy_steps", {"node": {}, "ports": []}, "true")
    assert answer["command_result"]["deploy_steps"] == {}, answer
    answer = run_command(agent, "rescue.no_such_thing", {}, "true")
    assert answer["command_status"] == "FAILED" and answer["command_error"]["type"] == "InvalidCommandError", answer

    def image(**changes):
        info = {"id": "lab", "urls": [url], "os_hash_algo": "sha256", "os_hash_value": digest, "disk_format": "raw", **changes}
        return {"image_info": info, "configdrive": None}

    answer = run_command(agent, "standby.prepare_image", image(os_hash_value="0" * 64), "true")
    assert answer["command_status"] == "FAILED" and digest in answer["command_error"]["details"], answer
    answer = run_command(agent, "standby.prepare_image", image(urls=[url + ".missing?signature=secret"]), "true")
    assert answer["command_status"] == "FAILED" and "404" in answer["command_error"]["details"], answer
    assert "secret" not in json.dumps(answer), answer
    with open(disk, "rb") as content:
        assert content.read(1 << 20) == bytes(1 << 20), "a deployment that failed left something to boot"
    answer = run_command(agent, "standby.prepare_image", image(disk_format="qcow2"), "true")
    assert answer["command_status"] == "FAILED", answer

    answer = run_command(agent, "standby.prepare_image", image(), "false")
    assert answer["command_status"] in ("RUNNING", "SUCCEEDED") and answer["command_name"] == "prepare_image", answer
    done = finished(agent)
    assert done["command_status"] == "SUCCEEDED" and done["command_error"] is None, done
    status, one = call(agent, f"/v1/commands/{done['id']}")
    assert status == 200 and one == done, one
    assert run_command(agent, "standby.sync", {}, "true")["command_status"] == "SUCCEEDED"
    logs = run_command(agent, "log.collect_system_logs", {}, "true")["command_result"]["system_logs"]
    assert tarfile.open(fileobj=io.BytesIO(base64.b64decode(logs))).getnames() == ["log"], "the logs are no archive"
    assert run_command(agent, "standby.power_off", {}, "true")["command_status"] == "SUCCEEDED"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", required=True, help="lab.env")
    parser.add_argument("--firmware", required=True, choices=["bios", "uefi"])
    parser.add_argument("--case", required=True, choices=["usb", "virtio", "instance"], help="the parameters volume, or no deployment")
    parser.add_argument("--iso", required=True)
    options = parser.parse_args()
    name = f"{options.firmware}-{options.case}"
    with open(options.lab, encoding="utf-8") as lines:
        lab = dict(line.rstrip("\n").split("=", 1) for line in lines)
    with open(lab["DISK_IMAGE"], "rb") as image:
        Conductor.image = image.read()
    digest = hashlib.sha256(Conductor.image).hexdigest()
    assert digest == lab["DISK_IMAGE_SHA256"], "lab.env names another digest than the disk image has"

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Conductor)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://10.0.2.2:{server.server_port}"
    dead = f"http://10.0.2.2:{free_port()}"

    machine = None
    with tempfile.TemporaryDirectory() as work:
        try:
            disk = os.path.join(work, "disk")
            with open(disk, "wb") as content:
                content.write(b"\xff" * (16 << 20))
            volume = os.path.join(work, "volume")
            subprocess.run(["mkfs.vfat", "-C", "-n", "ir-vfd-dev", volume, "1440"], check=True, capture_output=True)
            parameters = f"ipa-api-url={dead},{here}\nipa-agent-token={TOKEN}\nboot_method=vmedia\nBOOTIF={MAC}\n"
            subprocess.run(["mcopy", "-i", volume, "-", "::parameters.txt"], input=parameters.encode(), check=True)

            cd = ["-blockdev", f"driver=raw,node-name=cd,read-only=on,file.driver=file,file.filename={options.iso}"]
            cd += ["-device", "ide-cd,drive=cd,bus=ide.1,bootindex=1"]
            if options.case == "instance":
                machine = Machine(lab, work, options.firmware, disk, cd)
                up = machine.wait_for("the instance", lambda: "FARRIER-INSTANCE-BOOTED " in machine.serial() and "\n" in machine.serial().split("FARRIER-INSTANCE-BOOTED ")[1])
                assert "boot_method=vmedia quiet" in machine.serial().split("FARRIER-INSTANCE-BOOTED ")[1], "the kernel line is not the ISO's"
                time.sleep(2)
                assert machine.process.poll() is None, "the instance did not stay up"
                print(f"{name}: instance up {up:.1f} s", flush=True)
                return

            port = free_port()
            agent = f"http://127.0.0.1:{port}"
            extra = ["-smbios", f"type=3,asset={agent}"]
            extra += ["-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:9999"]
            extra += ["-device", f"virtio-net-pci,netdev=net,mac={MAC},romfile="]
            extra += cd
            extra += ["-blockdev", f"driver=raw,node-name=volume,file.driver=file,file.filename={volume}"]
            if options.case == "usb":
                extra += ["-device", "qemu-xhci,id=usb", "-device", "usb-storage,bus=usb.0,drive=volume,removable=on"]
            else:
                extra += ["-device", "virtio-blk-pci,drive=volume"]

            machine = Machine(lab, work, options.firmware, disk, extra)
            up = machine.wait_for("the ramdisk's first line", lambda: "FARRIER-RAMDISK up" in machine.serial())
            beat = machine.wait_for("a heartbeat", lambda: Conductor.heartbeats)
            assert Conductor.heartbeats[0][1]["callback_url"] == agent, Conductor.heartbeats[0]
            assert f"firmware {options.firmware}" in machine.serial()
            drive(agent, disk, f"{here}/disk.img", digest)
            machine.wait_for("power off", lambda: machine.process.poll() is not None)
            deployed = time.monotonic() - machine.started
            assert TOKEN not in machine.serial(), "the token is on the console"
            assert Conductor.refused == ["/disk.img.missing?signature=secret"], Conductor.refused
            with open(disk, "rb") as content:
                assert content.read(len(Conductor.image)) == Conductor.image, "the disk does not hold the image"

            machine = Machine(lab, work, options.firmware, disk, [])
            booted = machine.wait_for("the deployed disk", lambda: f"FARRIER-DISK-BOOTED {options.firmware}" in machine.serial())
            print(f"{name}: ramdisk up {up:.1f} s, first heartbeat {beat:.1f} s, deployed and off {deployed:.1f} s, disk booted in {booted:.1f} s", flush=True)
        except (AssertionError, OSError, LookupError, ValueError) as error:
            line = error.__traceback__.tb_lineno if error.__traceback__.tb_next is None else error.__traceback__.tb_next.tb_lineno
            print(f"{name}: FAILED at line {line}: {error!r}", file=sys.stderr)
            if machine is not None:
                print(machine.serial(), file=sys.stderr)
            sys.exit(1)
        finally:
            if machine is not None:
                machine.stop()


if __name__ == "__main__":
    main()
