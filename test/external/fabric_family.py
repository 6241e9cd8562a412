"""fabric_family.py - a machine whose interfaces have IPv6 addresses alone, and fabric ports on either loopback: clients that name no
node speak the port's family, not that of the fastest interface."""

import pathlib
import unittest

import fabric
import netns

PROVIDERS = ("net", "tcp;ofi_rxm", "udp;ofi_rxd")
SIZES = (64, 9000)
CONF = pathlib.Path("/proc/sys/net/ipv6/conf")


class Family(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.namespace = netns.Namespace()
        cls.addClassCleanup(cls.namespace.close)
        cls.namespace.enter()
        for name, value in (("default/accept_dad", "0"), ("default/disable_ipv6", "0"), ("lo/disable_ipv6", "0")):
            (CONF / name).write_text(value)
        cls.namespace.run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there")
        for link in ("here", "there"):
            cls.namespace.link_up(link)
        addresses = cls.namespace.run("ip", "-brief", "address")
        assert addresses.count("fe80::") == 2 and addresses.count("/8") == 1, addresses

    def assert_serves(self, node):
        with fabric.server_open(*(fabric.port(provider, node=node) for provider in PROVIDERS)) as server:
            fabric.others_write(server, SIZES)
            for provider in PROVIDERS:
                for over in ("unix", "tcp"):
                    with self.subTest(provider=provider, over=over):
                        fabric.client_end(fabric.client_start(server, "hostile_client", "sizes", "resp2", provider, *SIZES,
                                                              over=over))

    def test_clients_reach_a_port_on_ipv4(self):
        self.assert_serves("127.0.0.1")

    def test_clients_reach_a_port_on_ipv6(self):
        self.assert_serves("::1")

    def test_a_port_that_does_not_exist_is_named_by_the_server(self):
        with fabric.server_open(fabric.port("net")) as server:
            client = fabric.client_start(server, "hostile_client", "sizes", "resp2", "tcp;ofi_rxm", 64)
            with self.assertRaisesRegex(fabric.server.ServerError, "no fabric port of this name"):
                fabric.client_end(client)


if __name__ == "__main__":
    try:
        netns.Namespace().close()
    except PermissionError:
        fabric.server.skip("no CAP_SYS_ADMIN: network namespaces cannot be made")
    unittest.main(verbosity=2)
