//go:build linux

package swarm

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/markdown"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// machine is one daemon as a host has it: at Docker's own socket, with bridges and overlays.
const machine = `mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs tmpfs /run && ip link set lo up || exit 1
ip link add eth0 type bridge && ip addr add 10.77.0.1/24 dev eth0 && ip link set eth0 up || exit 1
mkdir -p "$1/d1"
dockerd --data-root="$1/d1/data" --host=unix:///var/run/docker.sock --host="unix://$1/d1/docker.sock" \
  --cgroup-parent="/$(basename "$1")" --storage-driver=vfs >"$1/d1/log" 2>&1
wait`

// typedHere marks the blocks of pages that this test types.
const typedHere = "make e2e-swarm types it"

// Somebody types the start page, and on the way what the guide says about metrics, the page and the
// API, on a machine of his own.
func TestThePagesAsTyped(t *testing.T) {
	kit.NeedsDocker(t, "nsenter", "iptables", "curl", "prometheus", "openssl")
	s := startDaemons(t, machine)
	s.await(t, 1)
	importImage(t, s)
	s.importPrograms(t, "busybox:1.36", `CMD ["sh"]`, "sh", "sleep")
	s.importPrograms(t, "prom/prometheus:v3.5.0", `ENTRYPOINT ["/bin/prometheus", "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]`, "prometheus")
	relay := filepath.Join(s.folder, "relay")
	buildOwn(t, relay, "relay")
	s.must(t, 1, "import", `--change=ENTRYPOINT ["/relay"]`, archive(t, relay), "alpine/socat:latest")

	start, guide := blocks(t, "start/swarm.md", 5), blocks(t, "guides/swarm.md", 5)
	s.types(t, "docker swarm init")
	s.types(t, start[0])
	s.types(t, start[1])
	began := time.Now()
	scaled := regexp.MustCompile(`demo/demo_web  ok     \S.* 1 → [23], \d+s ago\n    cpu \d+% \(target 60%\)`)
	s.shows(t, start[2], scaled)
	t.Logf("scaled %s after the load was there", time.Since(began).Round(time.Second))

	s.types(t, guide[0])
	s.types(t, guide[1])
	s.shows(t, guide[2], regexp.MustCompile(`"desiredReplicas"`))
	for _, job := range []string{"setpoint", "setpoint-agent", "setpoint-node"} {
		up := regexp.MustCompile(`"job":"` + job + `"},"value":\[[0-9.]+,"1"\]`)
		s.shows(t, guide[3], up)
	}

	s.shows(t, guide[4], regexp.MustCompile(`demo/demo_web  ok `)) // the agent, which started again, has usage
	began = time.Now()
	s.types(t, start[3])
	kit.Eventually(t, patience, "one replica again", func() error {
		if n := s.must(t, 1, "service", "inspect", "--format={{.Spec.Mode.Replicated.Replicas}}", "demo_web"); n != "1" {
			return fmt.Errorf("there are %s", n)
		}
		return nil
	})
	// The last recommendation under load is up to a period of 15 s older.
	if took := time.Since(began); took < 45*time.Second {
		t.Errorf("the count fell after %s, before the window of a minute", took)
	} else {
		t.Logf("the count fell to one %s after the load was taken off", took.Round(time.Second))
	}

	s.types(t, start[4])
	kit.Eventually(t, patience, "nothing left behind", func() error { // dockerd ends the containers of a stack after it has answered
		if left := s.must(t, 1, "ps", "--all", "--quiet") + s.must(t, 1, "service", "ls", "--quiet") + s.must(t, 1, "secret", "ls", "--quiet") + s.must(t, 1, "volume", "ls", "--quiet"); left != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
}

// blocks are the blocks of commands of a page that are typed here.
func blocks(t *testing.T, page string, want int) (out []string) {
	t.Helper()
	text := testpages.Read(t, filepath.Join(repository, "docs", page))
	for _, block := range markdown.Parse([]byte(text)).Blocks {
		if block.Language == "sh" && strings.Contains(block.Note, typedHere) {
			out = append(out, block.Text)
		}
	}
	if len(out) != want {
		t.Fatalf("%s has %d blocks with %q, not %d", page, len(out), typedHere, want)
	}
	return out
}

// typed runs commands in the machine's namespaces and the repository, as they are typed one after
// the other; the error is that of the last one.
func (s *swarm) typed(t *testing.T, commands string) (string, error) {
	t.Helper()
	root, err := filepath.Abs(repository)
	fatal.If(t, err)
	cmd := exec.Command("nsenter", fmt.Sprint("--target=", s.init.Process.Pid), "--mount", "--net", "--pid", "--wd="+root, "bash", "-c", commands)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	return output.String(), err
}

// types types commands that work at once.
func (s *swarm) types(t *testing.T, commands string) {
	t.Helper()
	began := time.Now()
	out, err := s.typed(t, "set -e\n"+commands)
	// docker service update reads the service and writes it: the agent may scale between the two, and
	// a person types the command again.
	for tries := 1; err != nil && tries < 5 && strings.Contains(out, "update out of sequence"); tries++ {
		out, err = s.typed(t, "set -e\n"+commands)
	}
	if err != nil {
		t.Fatalf("%s\n%v\n%s", commands, err, out)
	}
	t.Logf("%s took %s", strings.TrimSpace(commands), time.Since(began).Round(time.Second))
}

// shows types commands again until they show what they should.
func (s *swarm) shows(t *testing.T, commands string, what *regexp.Regexp) {
	t.Helper()
	kit.Eventually(t, patience, what.String(), func() error {
		out, err := s.typed(t, commands)
		if err == nil && !what.MatchString(out) {
			time.Sleep(3 * time.Second) // as one who looks again
			err = fmt.Errorf("%s shows\n%s", commands, out)
		}
		return err
	})
}

// importPrograms makes an image of this machine's programs, with their libraries.
func (s *swarm) importPrograms(t *testing.T, image, change string, programs ...string) {
	t.Helper()
	root := filepath.Join(s.folder, "root-"+programs[0])
	script := `set -e; mkdir -p "$0/bin"
for program; do
  file=$(readlink -f "$(command -v "$program")")
  cp "$file" "$0/bin/$program"
  for library in $(ldd "$file" | grep -oE '/[^ ]+\.so[^ ]*'); do mkdir -p "$0$(dirname "$library")"; cp -L "$library" "$0$library"; done
done`
	if out, err := exec.Command("bash", append([]string{"-c", script, root}, programs...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.must(t, 1, "import", "--change="+change, "--change=ENV PATH=/bin", archive(t, root), image)
}
