"""Pods in network namespaces, by chains of CNI plugins: the topology of pods-compare and pods-guarantees."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

PLUGINS = "/usr/lib/cni"
PEER = "10.90.0.2"
# Of the namespaces, one of each program: two that run at a time do not remove each other's.
PREFIX = {"pods-compare": "wpc", "pods-guarantees": "wpg"}[os.path.basename(sys.argv[0])]
RUNTIME_BURST = 2**31 - 1


def run(*command, **options):
    """The output of a command; the end of the program if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)}: {done.stderr}{done.stdout}")
    return done.stdout


def inside(name, *command):
    """A command in the namespace of a pod, of the host, the peer or the switch."""
    return ["ip", "netns", "exec", f"{PREFIX}-{name}", *command]


def programs(names):
    """The paths of cnitool and of programs of the release build, as root."""
    target = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", "target"))
    paths = {name: f"{target}/release/{name}" for name in names} | {"cnitool": f"{target}/tools/cnitool"}
    hints = {name: f"cargo build --release -p {name}" for name in names}
    for name, path in [*paths.items(), ("bandwidth", f"{PLUGINS}/bandwidth")]:
        if not os.path.exists(path):
            sys.exit(f"error: there is no {path}\nhint: {hints.get(name, './tools/setup.sh test')}")
    if os.geteuid():
        sys.exit("error: namespaces need root")
    return paths


def tuned_burst(bits):
    """A burst in bits for `bandwidth`: 2 ms of the rate, at least ten frames, as that of weir-cni."""
    return max(bits * 2 // 1000, 10 * 1514 * 8)


class Network:
    """The host, its pods on a bridge, and the peer behind a switch whose ports send 1 Gb/s."""

    def __init__(self, paths, chains, pods):
        """`chains` returns the plugins behind the bridge by the name of the chain, for a directory of records."""
        self.directory = tempfile.mkdtemp(prefix="weir-pods")
        self.records = f"{self.directory}/records"
        self.cnitool, self.servers, self.pods = paths["cnitool"], [], pods
        self.path = f"{PLUGINS}:{os.path.dirname(paths['weir-cni'])}"
        self.remove_namespaces()
        for name in ("host", "peer", "switch", *pods):
            run("ip", "netns", "add", f"{PREFIX}-{name}")
            run(*inside(name, "ip", "link", "set", "lo", "up"))
        run(*inside("switch", "ip", "link", "add", "bridge", "type", "bridge"))
        run(*inside("switch", "ip", "link", "set", "bridge", "up"))
        for name, address in (("host", "10.90.0.1/24"), ("peer", f"{PEER}/24")):
            run(*inside("switch", "ip", "link", "add", name, "type", "veth", "peer", "name", "uplink", "netns",
                        f"{PREFIX}-{name}"))
            run(*inside("switch", "ip", "link", "set", name, "master", "bridge", "up"))
            run(*inside("switch", "tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", "1gbit", "burst", "128k",
                        "latency", "10ms"))
            run(*inside(name, "ip", "address", "add", address, "dev", "uplink"))
            run(*inside(name, "ip", "link", "set", "uplink", "up"))
        run(*inside("peer", "ip", "route", "add", "default", "via", "10.90.0.1"))
        bridge = {"type": "bridge", "bridge": "wbr0", "isGateway": True, "ipMasq": False,
                  "ipam": {"type": "host-local", "dataDir": f"{self.directory}/ipam",
                           "ranges": [[{"subnet": "10.89.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}
        for chain, plugins in chains(self.records).items():
            conflist = {"cniVersion": "1.0.0", "name": f"{PREFIX}-{chain}", "plugins": [bridge, *plugins]}
            with open(f"{self.directory}/{chain}.conflist", "w") as file:
                json.dump(conflist, file)
        self.port = 5200

    def serve(self, name, *command, **options):
        null = subprocess.DEVNULL
        self.servers.append(subprocess.Popen(inside(name, *command), **{"stdout": null, "stderr": null, **options}))
        return self.servers[-1]

    def remove_namespaces(self):
        for name in (*self.pods, "host", "peer", "switch"):
            if os.path.exists(f"/run/netns/{PREFIX}-{name}"):
                run("ip", "netns", "del", f"{PREFIX}-{name}")

    def remove(self):
        """Ends the servers, and removes the namespaces and the files."""
        for server in self.servers:
            server.kill()
            server.wait()
        self.remove_namespaces()
        shutil.rmtree(self.directory)

    def execute(self, verb, chain, pod, rates, namespace="shop"):
        environment = {**os.environ, "NETCONFPATH": self.directory, "CNI_PATH": self.path, "CNI_IFNAME": "eth0",
                       "CNI_ARGS": f"K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={pod};IgnoreUnknown=1",
                       "CAP_ARGS": json.dumps({"bandwidth": rates} if rates else {})}
        command = inside("host", self.cnitool, verb, f"{PREFIX}-{chain}", f"/run/netns/{PREFIX}-{pod}")
        run(*command, env=environment)

    def bulk(self, pod, direction, seconds, *options):
        """iperf3 from the pod to the peer (egress) or back (ingress)."""
        reverse = ["-R"] if direction == "ingress" else []
        # A server takes one test at a time, and ends it some time after its client.
        self.port += 1
        self.serve("peer", "iperf3", "-s", "-1", "-p", str(self.port))
        while f":{self.port} " not in run(*inside("peer", "ss", "-Hltn")):
            time.sleep(0.02)
        client = ["iperf3", "-J", "-c", PEER, "-p", str(self.port), "-t", str(seconds), *reverse, *options]
        return subprocess.Popen(inside(pod, *client), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def finished(process):
    """The report of iperf3."""
    output = json.loads(process.communicate()[0])
    if "error" in output:
        sys.exit(f"error: iperf3: {output['error']}")
    return output


def shown(values, digits):
    values = sorted(values)
    median = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    return f"{median:.{digits}f} ({values[0]:.{digits}f}-{values[-1]:.{digits}f})"


def table(title, head, rows):
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
