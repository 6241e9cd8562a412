"""sluice-appliance on a made-up hpc7g.16xlarge: it says what it will do, does that, and puts everything back, also when it
was killed on the way. Never on this machine: all runs are below a folder, and as nobody where the tests are root's."""

import os
import re
import resource
import signal
import subprocess
import time
import unittest

from made_up_host import CARD, DEPLOY, KERNEL, SCALED, Host

SPARE = "0,48-63"
ARGUMENTS = ("isolcpus=managed_irq,domain,1-47 nohz_full=1-47 rcu_nocbs=1-47 irqaffinity=0,48-63 hugepagesz=2M "
             "hugepages=49280")
REBOOT = f"a reboot is needed for the kernel's command line: {ARGUMENTS}"
PAGES = "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
THP = "sys/kernel/mm/transparent_hugepage/enabled"
GRUB = "etc/default/grub.d/60-sluice.cfg"
DROP_IN = "etc/systemd/system/sluiced.service.d/ethernet-vfio-pci.conf"
PLAN = [
    f"write /{GRUB}: GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT {ARGUMENTS}\"; run update-grub",
    f"write /{DROP_IN}: PrivateDevices=no; run systemctl daemon-reload",
    "run systemctl enable sluice-appliance.target",
    f"write 49280 to /{PAGES} (now 0)",
    f"write madvise to /{THP} (now never)",
    "write 1 to /proc/sys/vm/swappiness (now 60)",
    "write 0 to /proc/sys/kernel/numa_balancing (now 1)",
    *(f"write performance to /sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor (now schedutil)"
      for cpu in SCALED if 1 <= cpu <= 47),
    "run systemctl stop irqbalance.service",
    "write ffff0000,00000001 to /proc/irq/default_smp_affinity (now ffffffff,ffffffff)",
    f"write {SPARE} to /proc/irq/24/smp_affinity_list (now 0-63)",
    f"write {SPARE} to /proc/irq/25/smp_affinity_list (now 7)",
    "run ethtool -C ens5 adaptive-rx off rx-usecs 0 tx-usecs 0",
    "run modprobe vfio-pci",
    "write Y to /sys/module/vfio/parameters/enable_unsafe_noiommu_mode (now N)",
    f"bind {CARD} to vfio-pci (now ena)",
]


class OnHost(unittest.TestCase):
    def setUp(self):
        self.maxDiff = None
        self.host = Host()
        self.addCleanup(self.host.close)

    def good(self, *words, **more):
        done = self.host.run(*words, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout.splitlines()

    def settings(self, **changed):
        """hpc7g.conf with other values: lcores="1-15", reserve="1GiB", device="..."."""
        text = (DEPLOY.parent.parent / "hpc7g.conf").read_text()
        for name, value in changed.items():
            text, count = re.subn(rf'^(\s*{name} = )"[^"]*"', rf'\g<1>"{value}"', text, flags=re.MULTILINE)
            self.assertEqual(count, 1, name)
        self.settings_text(text)

    def settings_text(self, text):
        self.host.write("settings", text)
        self.addCleanup(setattr, self.host, "settings", self.host.settings)
        self.host.settings = self.host.path("settings")

    def reverted(self):
        self.host.path("settings").unlink(missing_ok=True)
        self.assertEqual(self.host.snapshot(), self.host.before)


class Refusals(OnHost):
    def refused(self, said, *words, code=1, untouched=True, **more):
        before, calls = self.host.snapshot(), self.host.log()
        for command in words or ("apply",):
            done = self.host.run(*command.split(), **more)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()) if code == 1 else 1, 1)
        if untouched:
            self.assertEqual(self.host.snapshot(), before)
            self.assertEqual(self.host.log(), calls)

    def test_wrong_words(self):
        for words in ("", "fly", "plan twice", "plan --fast", "revert --boot", "status --boot", "apply -c"):
            done = self.host.run(*(words.split() or ["--nothing"]), root=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)

    def test_no_root(self):
        self.refused("must be run as root", "apply", "revert", root=False)

    def test_settings_that_are_missing_or_wrong(self):
        self.refused("/nowhere", "plan -c /nowhere", "apply -c /nowhere")
        self.settings_text("lcores: { cpsu = \"1\"; };\n")
        self.refused("cpsu", "plan", "apply", "status")
        self.settings(cpus="all")
        self.refused("lcores.cpus")

    def test_settings_that_change_with_every_look(self):
        self.settings(cpus="auto")
        self.refused('lcores.cpus is "auto"')
        self.settings(reserve="auto", limit="auto")
        self.refused('memory.reserve is "auto"')

    def test_no_sluiced_to_read_settings_with(self):
        self.host.path("usr/bin/sluiced").unlink()
        self.refused("no sluiced here")
        self.refused("/nowhere cannot be run", "plan --sluiced /nowhere")

    def test_cpus_that_cannot_be_given_away(self):
        self.settings(cpus="0-47")
        self.refused("lcores.cpus has CPU 0")
        self.host.write("sys/devices/system/cpu/present", "0-31\n")
        self.settings(cpus="1-47")
        self.refused("lcores.cpus has 32-47, this host has 0-31")
        self.settings(cpus="0-31")
        self.refused("lcores.cpus has every CPU of this host (0-31)")

    def test_more_memory_than_the_host_can_spare_by_a_page(self):
        pages = 49280
        self.host.write("proc/meminfo", f"MemTotal: {pages * 2048 + 2 * 1024 * 1024 - 1} kB\n")
        self.refused("leave less than 2 GiB")
        self.host.write("proc/meminfo", f"MemTotal: {pages * 2048 + 2 * 1024 * 1024} kB\n")
        self.good("plan")
        self.host.path(PAGES).unlink()
        self.refused("no huge pages of 2 MiB")

    def test_a_card_that_carries_the_default_route(self):
        route = KERNEL["proc/net/route"].replace("ens5 00000000", "ens5 0001A8C0")
        self.host.write("proc/net/route", route)
        self.refused(f"{CARD} is ens6, which carries the default route")
        self.host.write("proc/net/route", "Iface\n")
        self.good("plan")
        self.host.write("proc/net/ipv6_route", f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} 00000400 00000001 00000000 00000003 ens6\n")
        self.refused(f"{CARD} is ens6, which carries the default route")
        self.host.write("proc/net/ipv6_route", "")
        self.host.write("proc/net/route", route.replace("ens6", "bond0"))
        self.good("plan")
        self.host.path("sys/class/net/bond0").mkdir()
        self.host.path("sys/class/net/bond0/lower_ens6").symlink_to("../ens6")
        self.refused(f"{CARD} is bond0, which carries the default route")

    def test_a_card_that_is_not_there(self):
        self.settings(device="0000:00:07.0")
        self.refused("no PCI device 0000:00:07.0")

    def test_two_at_once(self):
        self.host.write("stop.update-grub", "")
        first = self.host.start("apply")
        while "update-grub " not in self.host.log():
            time.sleep(0.01)
        self.refused("another sluice-appliance is at work", "apply", "revert", untouched=False)
        first.send_signal(signal.SIGINT)
        out, said = first.communicate(timeout=30)
        self.assertEqual(first.returncode, 1, out)
        self.assertIn("interrupted; revert puts back", said)
        self.host.path("stop.update-grub").unlink()
        self.good("revert")
        self.reverted()

    def test_a_state_that_cannot_be_understood_is_kept(self):
        for text in ("{", "[]", '{"records": [1]}', '{"records": [{"boot": null}]}'):
            self.host.write("var/lib/sluice/appliance/state.json", text)
            self.refused("cannot be understood", "plan", "apply", "revert", "status")
            self.assertEqual(self.host.read("var/lib/sluice/appliance/state.json"), text)

    def test_a_state_that_cannot_be_written(self):
        self.host.path("var/lib").chmod(0o500)
        self.refused("Permission denied", "apply")

    def test_a_card_is_not_taken_from_a_sluiced_that_runs(self):
        self.good("apply")
        self.host.write("proc/900/comm", "sluiced\n")
        self.refused("stop it first", "revert")
        self.settings(device="net_tap0")
        self.refused("stop it first", "apply", untouched=False)
        self.assertEqual(self.host.driver(), "vfio-pci")


class Changes(OnHost):
    def test_apply_does_what_plan_says_and_revert_puts_back_every_byte(self):
        self.assertEqual(self.good("plan"), [*PLAN, REBOOT])
        self.assertEqual(self.host.snapshot(), self.host.before)
        self.assertEqual(self.good("apply"), [*PLAN, REBOOT])
        self.assertEqual(self.host.read(PAGES), "49280\n")
        self.assertEqual(self.host.read(THP), "madvise\n")
        self.assertEqual(self.host.read("proc/irq/25/smp_affinity_list"), SPARE + "\n")
        self.assertEqual(self.host.read("proc/irq/100/smp_affinity_list"), "50\n")
        self.assertEqual(self.host.read("sys/devices/system/cpu/cpu48/cpufreq/scaling_governor"), "schedutil\n")
        self.assertEqual(self.host.driver(), "vfio-pci")
        self.assertFalse(self.host.path("proc/700").exists())
        self.assertEqual(self.host.read("ethtool.ens5"), "Adaptive RX: off  TX: off\nrx-usecs: 0\ntx-usecs: 0\n")
        self.assertEqual(self.host.read(DROP_IN), (DEPLOY / "ethernet-vfio-pci.conf").read_text())
        self.assertIn(ARGUMENTS, self.host.read("boot/grub.cfg"))
        self.good("revert")
        self.reverted()
        self.assertNotIn("isolcpus", self.host.read("boot/grub.cfg"))
        self.assertEqual(self.host.read("ethtool.ens5"), KERNEL["ethtool.ens5"])
        self.assertEqual(self.good("revert"), [])
        self.reverted()

    def test_twice_changes_nothing_more(self):
        self.good("apply")
        once = self.host.snapshot()
        calls = len(self.host.log())
        self.assertEqual(self.good("plan"), [REBOOT])
        self.assertEqual(self.good("apply"), [REBOOT])
        self.assertEqual(self.host.snapshot(), once)
        self.assertEqual([line for line in self.host.log()[calls:] if not line.startswith("ethtool -c")], [])
        self.good("revert")
        self.reverted()

    def test_status_tells_what_is_missing_until_the_reboot(self):
        done = self.host.run("status")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([line for line in done.stdout.splitlines() if line.startswith("missing  ")],
                         [f"missing  {line}" for line in (*PLAN, REBOOT)])
        self.good("apply")
        done = self.host.run("status")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([line for line in done.stdout.splitlines() if not line.startswith("good ")], [f"missing  {REBOOT}"])
        self.host.reboot()
        self.good("apply", "--boot")
        self.assertEqual([line for line in self.good("status") if not line.startswith("good ")], [])

    def test_a_boot_forgets_and_the_service_does_it_again(self):
        self.good("apply")
        self.host.reboot()
        volatile = [line for line in PLAN if not line.startswith(("write /etc", "run systemctl enable"))]
        self.assertEqual(self.good("plan", "--boot"), volatile)
        self.assertEqual(self.good("apply", "--boot"), volatile)
        self.assertEqual(self.host.driver(), "vfio-pci")
        self.assertIn("a reboot is needed for the kernel's command line", self.good("revert"))
        self.host.write("proc/cmdline", KERNEL["proc/cmdline"])
        self.host.write("proc/sys/kernel/random/boot_id", "first\n")
        self.reverted()

    def test_after_a_boot_revert_leaves_alone_what_the_kernel_has_forgotten(self):
        self.good("apply")
        self.host.reboot()
        self.host.write(PAGES, "7\n")
        self.assertEqual([line.split(":")[0].split(";")[0] for line in self.good("revert")],
                         ["run systemctl disable sluice-appliance.target", f"remove /{DROP_IN}", f"remove /{GRUB}",
                          "a reboot is needed for the kernel's command line"])
        self.assertEqual(self.host.read(PAGES), "7\n")
        self.assertFalse(self.host.path("var/lib/sluice").exists())

    def test_other_settings_take_the_place_of_the_first(self):
        self.good("apply")
        text = (DEPLOY.parent.parent / "hpc7g.conf").read_text()
        port = text[text.index('  {\n    type = "ethernet";'):text.index("\n);")]
        self.settings_text(text.replace(",\n" + port, "").replace('cpus = "1-47"', 'cpus = "1-15"'))
        lines = self.good("apply")
        self.assertIn(f"bind {CARD} to ena", lines)
        self.assertIn(f"remove /{DROP_IN}; run systemctl daemon-reload", lines)
        self.assertIn("write schedutil to /sys/devices/system/cpu/cpu16/cpufreq/scaling_governor", lines)
        self.assertEqual(self.host.driver(), "ena")
        self.assertIn("isolcpus=managed_irq,domain,1-15 ", self.host.read(GRUB))
        self.assertIn("hugepages=49152\"", self.host.read(GRUB))
        self.good("revert")
        self.reverted()

    def test_settings_elsewhere_come_with_a_word_about_the_boot(self):
        mine = self.host.settings_copy()
        other = mine.with_name("other.conf")
        self.host.write("etc/sluice/other.conf", mine.read_text())
        self.assertEqual(self.good("plan", "-c", str(other)), [*PLAN, f"at every boot {mine} is read, not {other}", REBOOT])

    def test_a_kernel_interface_as_port_gets_its_own_drop_in(self):
        self.settings(device="net_af_packet0,iface=ens6")
        self.good("apply")
        drop_ins = os.listdir(self.host.path("etc/systemd/system/sluiced.service.d"))
        self.assertEqual((drop_ins, self.host.driver()), (["ethernet-af_packet.conf"], "ena"))
        self.good("revert")
        self.reverted()

    def test_a_card_behind_an_iommu_or_without_a_driver(self):
        self.host.path(f"sys/bus/pci/devices/{CARD}/driver").unlink()
        self.host.path(f"sys/bus/pci/devices/{CARD}/iommu_group").symlink_to("../../../../kernel/iommu_groups/3")
        before = self.host.snapshot()
        lines = self.good("apply")
        self.assertEqual([line for line in lines if "unsafe" in line], [])
        self.assertEqual(self.host.driver(), "vfio-pci")
        self.good("revert")
        self.assertEqual(self.host.snapshot(), before)

    def test_files_that_were_there_come_back(self):
        self.host.write(GRUB, "mine\n")
        self.host.path(GRUB).chmod(0o600)
        self.host.write(DROP_IN, "[Service]\nNice=5\n")
        self.host.path(DROP_IN).write_bytes(b"# \xfcbrig\r\n[Service]\nNice=5\n")
        before = self.host.snapshot()
        self.good("apply")
        self.assertIn("isolcpus", self.host.read(GRUB))
        self.good("revert")
        self.assertEqual(self.host.snapshot(), before)

    def test_grubby_where_the_distribution_has_it(self):
        self.host.path("usr/sbin/update-grub").unlink()
        self.assertIn("neither update-grub nor grubby is here: add to the kernel's command line and reboot: " + ARGUMENTS,
                      self.good("plan"))
        self.host.program("grubby", "")
        before = self.host.snapshot()
        self.good("apply")
        self.assertIn(f"grubby --update-kernel=ALL --args={ARGUMENTS}", self.host.log())
        self.assertEqual(self.good("plan"), [REBOOT])
        self.settings(cpus="1-31")
        self.good("apply")
        self.assertIn(f"grubby --update-kernel=ALL --remove-args={ARGUMENTS}", self.host.log())
        self.good("revert")
        shorter = ARGUMENTS.replace("1-47", "1-31").replace("0,48-63", "0,32-63")
        self.assertIn(f"grubby --update-kernel=ALL --remove-args={shorter}", self.host.log())
        self.host.path("settings").unlink()
        self.assertEqual(self.host.snapshot(), before)


class Failures(OnHost):
    def test_a_program_that_fails_is_named_the_rest_is_done_and_it_is_tried_again(self):
        for name, line in (("update-grub", PLAN[0]), ("modprobe", "run modprobe vfio-pci")):
            with self.subTest(name=name):
                self.host.write(f"fail.{name}", "")
                done = self.host.run("apply")
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"sluice-appliance: {line}: exit code 3: it would not\n", done.stderr)
                self.assertEqual(self.host.read(PAGES), "49280\n")
                self.host.path(f"fail.{name}").unlink()
                self.assertIn(line, self.good("apply"))
                self.good("revert")
                self.reverted()

    def test_a_revert_that_fails_can_be_repeated(self):
        self.good("apply")
        self.host.write("fail.update-grub", "")
        self.assertEqual(self.host.run("revert").returncode, 1)
        self.host.path("fail.update-grub").unlink()
        self.good("revert")
        self.reverted()

    @unittest.skipUnless(os.geteuid() == 0, "root gives the file to somebody else")
    def test_an_interrupt_that_the_kernel_keeps_stays_and_is_not_tried_again(self):
        self.host.path("proc/irq/25/smp_affinity_list").chmod(0o444)
        before = self.host.snapshot()
        self.good("apply")
        self.assertEqual(self.host.read("proc/irq/25/smp_affinity_list"), "7\n")
        self.assertEqual(self.good("plan"), [REBOOT])
        self.good("revert")
        self.assertEqual(self.host.snapshot(), before)

    def test_fewer_huge_pages_than_asked_for_is_said(self):
        self.host.path(PAGES).unlink()
        self.host.path(PAGES).symlink_to("/dev/null")
        done = self.host.run("apply")
        self.assertEqual(done.returncode, 1)
        self.assertIn("room for 0 only: after a boot with the new command line there is", done.stderr)
        self.good("revert")

    def test_a_disk_that_is_full_loses_nothing(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

        done = self.host.run("apply", preexec_fn=small_files)
        self.assertEqual(done.returncode, 1)
        self.assertIn("File too large", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.good("revert")
        self.reverted()

    def test_a_reader_that_leaves_stops_it_and_revert_puts_back(self):
        process = self.host.start("apply")
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual((process.wait(), process.stderr.read()), (-signal.SIGPIPE, ""))
        process.stderr.close()
        self.good("revert")
        self.reverted()

    def test_a_kernel_whose_vfio_needs_an_iommu_leaves_the_card_where_it_is(self):
        self.host.path("sys/module/vfio/parameters/enable_unsafe_noiommu_mode").unlink()
        before = self.host.snapshot()
        done = self.host.run("apply")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no IOMMU, and this kernel was built without CONFIG_VFIO_NOIOMMU", done.stderr)
        self.assertIn("left where it is", done.stderr)
        self.assertEqual(self.host.driver(), "ena")
        self.good("revert")
        self.assertEqual(self.host.snapshot(), before)

    def test_a_card_that_the_driver_refuses_is_said_and_put_back(self):
        self.host.path("sys/bus/pci/drivers_probe").unlink()
        self.host.write("sys/bus/pci/drivers_probe", "")
        done = self.host.run("apply")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the card is with no driver still", done.stderr)

    def test_killed_at_any_program_it_can_be_reverted_or_finished(self):
        self.good("apply")
        calls = len(self.host.log())
        self.good("revert")
        self.host.path("log").unlink()
        for at in range(1, calls + 1):
            with self.subTest(call=at):
                self.host.write("kill", f"{at}\n")
                for finish in (False, True):
                    self.host.path("log").unlink(missing_ok=True)
                    self.assertEqual(self.host.run("apply").returncode, -signal.SIGKILL)
                    self.host.write("log", "\n" * calls)  # beyond the one that kills
                    if finish:
                        self.good("apply")
                    self.good("revert")
                    self.reverted()

    def test_killed_at_any_time_it_can_be_reverted(self):
        begun = time.monotonic()
        self.good("apply")
        took_s = time.monotonic() - begun
        self.good("revert")
        for part in range(2, 7):
            with self.subTest(part=part):
                process = self.host.start("apply")
                try:
                    process.communicate(timeout=took_s * part / 6)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                self.good("revert")
                self.reverted()


if __name__ == "__main__":
    unittest.main()
