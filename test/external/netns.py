"""netns.py - network namespaces, links between them, and a sluiced that serves an ethernet port in one of them.

    with netns.Wire() as wire, netns.EthernetServer(wire) as served:
        served.connect()          # this process is in the client's namespace, at the other end of the link

Namespaces have no names: they and their links are gone when the last process in them is, however it ended."""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import socket
import subprocess

import server

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)

PORT = 6379
HERE, THERE = "10.86.0.1", "10.86.0.2"  # the client's kernel, the ethernet port
KERNEL_HERE, KERNEL_THERE = "10.86.1.1", "10.86.1.2"  # the kernel's stack at both ends of a second link
OFFLOADS = ("rx", "tx", "sg", "tso", "gso", "gro")  # a veth's partial checksums are for kernels only

# "kernel" runs the suites against sockets of the kernel at the port's address: it tells a fault of the tests from one of the port.
STACK = os.environ.get("SLUICE_ETHERNET_STACK", "port")


def skip_unless_possible():
    """Ends the process with what tools/check reads as "cannot run here" where it cannot."""
    try:
        Namespace().close()
    except PermissionError:
        server.skip("no CAP_SYS_ADMIN: network namespaces cannot be made")
    if STACK == "port" and not (server.BUILD / "sluice_ethernet.so").exists():
        server.skip(f"{server.BUILD}/sluice_ethernet.so was not built: packages dpdk-dev and liblwip-dev are missing")


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


class Namespace:
    """A new one; the process stays in its own until enter()."""

    def __init__(self):
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            code = LIBC.unshare(CLONE_NEWNET)
            if code != 0 and ctypes.get_errno() in (1, 13):
                raise PermissionError(ctypes.get_errno(), "unshare")
            check(code, "unshare")
            self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            # Neighbours by themselves speak IPv6; a test counts frames.
            pathlib.Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
            check(LIBC.setns(home, CLONE_NEWNET), "setns")
        finally:
            os.close(home)
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"
        self.run("ip", "link", "set", "lo", "up")

    def enter(self):
        """The calling thread, and what it starts from now on, is in this namespace."""
        check(LIBC.setns(self.fd, CLONE_NEWNET), "setns")

    def prefix_with(self, *capabilities):
        """Of a command line that runs here and ends with this process; root has only these capabilities, or all if none is named."""
        capped = (f"--bounding-set=-all{''.join(f',+{name}' for name in capabilities)}", "--inh-caps=-all") if capabilities else ()
        return ("nsenter", f"--net={self.path}", "setpriv", "--pdeathsig", "TERM", *capped)

    def run(self, *words, timeout_s=30):
        done = subprocess.run(["nsenter", f"--net={self.path}", *words], capture_output=True, text=True, timeout=timeout_s)
        if done.returncode != 0:
            raise server.ServerError(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def address_set(self, link, address):
        self.run("ip", "address", "add", f"{address}/24", "dev", link)

    def link_up(self, link, mtu=1500):
        self.run("ip", "link", "set", link, "mtu", str(mtu), "up")

    def offloads_off(self, link):
        self.run("ethtool", "-K", link, *(word for name in OFFLOADS for word in (name, "off")))

    def mac(self, link):
        return json.loads(self.run("ip", "-json", "link", "show", link))[0]["address"]

    def close(self):
        os.close(self.fd)


class Wire:
    """Two namespaces and two links: wire0 to wire1 for the port, kernel0 to kernel1 for two kernels. The calling thread is in the
    client's namespace until the end."""

    device = "net_af_packet0,iface=wire0"

    def __init__(self, mtu=1500):
        self.mtu = mtu
        with contextlib.ExitStack() as undo:
            self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            undo.callback(os.close, self.home)
            self.server, self.client = Namespace(), Namespace()
            undo.callback(self.client.close)
            undo.callback(self.server.close)
            self.link_make("kernel")
            self.client.address_set("kernel1", KERNEL_HERE)
            self.server.address_set("kernel0", KERNEL_THERE)
            self.wire_make()
            if STACK == "port":  # libfabric's clients may choose either of their addresses
                self.server.run("ip", "route", "add", HERE, "via", KERNEL_HERE)
            self.client.enter()
            self.undo = undo.pop_all()

    def link_make(self, name):
        here, there = f"{name}1", f"{name}0"
        self.client.run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", self.server.path)
        for side, link in ((self.client, here), (self.server, there)):
            side.offloads_off(link)
            side.link_up(link, self.mtu)

    def wire_make(self):
        self.link_make("wire")
        self.addresses_set()

    def addresses_set(self):
        self.client.address_set("wire1", HERE)
        if STACK == "kernel":
            self.server.address_set("wire0", THERE)
            self.server.run("ip", "route", "add", "default", "via", HERE)

    def up(self):
        """Once the server is there."""

    def close(self):
        check(LIBC.setns(self.home, CLONE_NEWNET), "setns")
        self.undo.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Tap(Wire):
    """The server makes a tap of its own, which then moves to the client."""

    device = "net_tap0,iface=wire1"

    def wire_make(self):
        if STACK == "kernel":
            super().wire_make()

    def up(self):
        if STACK == "port":
            self.server.run("ip", "link", "set", "wire1", "netns", self.client.path)
            self.client.address_set("wire1", HERE)
            self.client.link_up("wire1", self.mtu)


class Relayed(Wire):
    """The wire is a tap at either end and test/dataplane/relay.c between them, which does harm to the frames."""

    def __init__(self, seed, **harm):
        self.seed, self.harm = seed, harm
        super().__init__()

    def wire_make(self):
        words = [f"{name}={value}" for name, value in self.harm.items()]
        self.relay = subprocess.Popen(
            [server.BUILD / "test" / "dataplane" / "relay", str(self.seed), self.client.path, "wire1", self.server.path, "wire0", *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.relay.stdout.readline() != "ready\n":
            raise server.ServerError("the relay does not start")
        for side, link in ((self.client, "wire1"), (self.server, "wire0")):
            side.link_up(link, self.mtu)
        self.addresses_set()

    def relay_end(self):
        """What it did, by name."""
        out, _ = self.relay.communicate(timeout=30)
        return json.loads(out)

    def close(self):
        if self.relay.poll() is None:
            self.relay_end()
        super().close()


def fabric_port(provider="net"):
    return f'{{ type = "fabric"; provider = "{provider}"; node = "{KERNEL_THERE}"; }}'


class EthernetServer(server.Server):
    """Its ethernet port is polled by the only lcore and is what "tcp" means to a test; its kernel's sockets listen at
    KERNEL_THERE."""

    host = THERE

    def __init__(self, wire, *settings, ports=(), capabilities=(), config=None, **port):
        self.prefix = wire.server.prefix_with(*capabilities)
        self.wire = wire
        values = {"device": wire.device, "address": f"{THERE}/24", "gateway": HERE, "listen": str(PORT), **port}
        text = "".join(f' {name} = "{value}";' if isinstance(value, str) else f" {name} = {value};"
                       for name, value in values.items())
        streams = f"{KERNEL_THERE},{THERE}" if STACK == "kernel" else KERNEL_THERE
        ports = (*(() if STACK == "kernel" else (f'{{ type = "ethernet";{text} }}',)), *ports)
        super().__init__("auth.protected_mode=false", f"streams.address={streams}", f"streams.port={PORT}",
                         f"ports=({', '.join(ports)})", *settings, config=config)
        wire.up()

    def mac(self):
        """The port's, as a neighbour learns it."""
        found = None
        for _ in range(50):
            subprocess.run(["ping", "-c", "1", "-W", "1", THERE], capture_output=True, check=False)
            found = re.search(r"lladdr (\S+)", subprocess.run(["ip", "neighbour", "show", THERE], capture_output=True, text=True,
                                                              check=True).stdout)
            if found:
                return found.group(1)
        raise server.ServerError(f"{THERE} has no Ethernet address")

    def held(self):
        """What the port holds: connections of any state, frames received, segments to be sent."""
        if STACK == "kernel":
            return {}
        row = next(row for row in self.ctl("ports")["ports"] if row["type"] == "ethernet")
        return {name: row[name] for name in ("connections", "frames_held", "segments")}

    def lcore_thread(self):
        return self.ctl("lcores")["lcores"][0]["tid"]


def packets(victim_mac, kind, count, seed=1, per_second=0, peer=None, interface="wire1"):
    """Hostile frames (test/dataplane/packet_kinds.c). How many the interface took."""
    command = [server.BUILD / "test" / "dataplane" / "packets", interface, victim_mac, THERE, str(PORT), str(seed), kind, str(count),
               f"per_second={per_second}"]
    if peer is not None:
        command.append(f"peer={peer[0]}:{peer[1]}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise server.ServerError(f"packets {kind}: {done.stderr.strip()}")
    return int(done.stdout)
