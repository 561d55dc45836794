//go:build linux

package deploy

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/setpoint-dev/setpoint/cmd/programs"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

const mebibyte = 1 << 20

func TestImageHasTheProgramsAndCertificatesOnly(t *testing.T) {
	d := docker(t)
	name := image(t, d)
	var inspected []struct {
		Size   int64
		Config struct {
			User       string
			Labels     map[string]string
			Entrypoint []string
		}
	}
	fatal.If(t, json.Unmarshal([]byte(d.must(t, "docker", "image", "inspect", name)), &inspected))
	is := inspected[0]
	t.Logf("the image takes %.1f MiB", float64(is.Size)/mebibyte)
	// Five programs, each linked statically.
	if is.Size > 150*mebibyte {
		t.Errorf("the image takes %d bytes", is.Size)
	}
	if is.Config.User != "65532:65532" {
		t.Errorf("it runs as %q", is.Config.User)
	}
	for _, label := range []string{"title", "version", "revision", "created", "licenses", "source"} {
		if is.Config.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("no label %s", label)
		}
	}
	container := d.must(t, "docker", "create", name)
	defer d.must(t, "docker", "rm", container)
	if _, err := d.run("sh", "-c", "docker export "+container+" >"+d.path("image.tar")); err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(d.must(t, "tar", "-tf", d.path("image.tar")))
	// Docker puts mount points into every container.
	files = slices.DeleteFunc(files, func(file string) bool {
		return strings.HasSuffix(file, "/") || slices.Contains([]string{
			".dockerenv", "dev/console", "etc/hostname", "etc/hosts", "etc/mtab", "etc/resolv.conf",
		}, file)
	})
	slices.Sort(files)
	if want := append([]string{"etc/ssl/certs/ca-certificates.crt"}, programs.Names()...); !slices.Equal(files, want) {
		t.Errorf("it has %q, want %q", files, want)
	}
}

// The image of the service alone takes at most 30 MiB as it lies on a node's disk, for each
// architecture, made here of programs that can't all run here.
func TestTheImageOfTheServiceAloneIsSmall(t *testing.T) {
	d := docker(t)
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	first := "" // the settings of one, which are those of all
	for _, architecture := range slices.Sorted(maps.Keys(machines)) {
		t.Run(architecture, func(t *testing.T) {
			name, folder := "setpoint-service:e2e-"+architecture, t.TempDir()+"/image"
			if _, err := d.runWith([]string{"CONTEXT=" + folder, "GOARCH=" + architecture}, "scripts/image.sh", name, "setpoint"); err != nil {
				t.Fatal(err)
			}
			is := d.must(t, "docker", "image", "inspect", "--format={{.Os}} {{.Architecture}} {{.Size}}", name)
			var system, of string
			var size int64
			if _, err := fmt.Sscan(is, &system, &of, &size); err != nil || system != "linux" || of != architecture {
				t.Fatalf("the image is %q: %v", is, err)
			}
			t.Logf("the image takes %.1f MiB", float64(size)/mebibyte)
			if size > 30*mebibyte {
				t.Errorf("the image takes %d bytes, at most 30 MiB", size)
			}
			program, err := elf.Open(folder + "/setpoint")
			fatal.If(t, err)
			defer func() { _ = program.Close() }()
			if program.Machine != machines[architecture] {
				t.Errorf("its program is for %v", program.Machine)
			}
			const settings = "--format={{json .Config.Entrypoint}} {{json .Config.Cmd}} {{.Config.User}} {{json .Config.ExposedPorts}} {{json .Config.Healthcheck.Test}} {{json .Config.Labels}}"
			if got := d.must(t, "docker", "image", "inspect", settings, name); first == "" {
				first = got
			} else if got != first {
				t.Errorf("its settings are %s, of the other architecture %s", got, first)
			}
		})
	}
}

// The program of the service's own image has the page with its playground, and says of the
// commands that it lacks where they are.
func TestWhatTheServicesOwnProgramHas(t *testing.T) {
	d := docker(t)
	const name = "setpoint-service:e2e"
	if _, err := d.runWith([]string{"CONTEXT=" + t.TempDir() + "/image"}, "scripts/image.sh", name, "setpoint"); err != nil {
		t.Fatal(err)
	}
	help := d.must(t, "docker", "run", "--rm", name, "--help")
	for _, command := range []string{"serve", "health", "targets", "token", "version"} {
		if !strings.Contains(help, "\n  "+command+" ") {
			t.Errorf("it has no command %s:\n%s", command, help)
		}
	}
	if !strings.Contains(help, "the image setpoint") || strings.Contains(help, "\n  explain ") {
		t.Errorf("help does not say where other commands are:\n%s", help)
	}
	d.must(t, "docker", "run", "--rm", name, "serve", "--check", "--ui")
	container := d.must(t, "docker", "create", name)
	defer d.must(t, "docker", "rm", container)
	program := filepath.Join(t.TempDir(), "setpoint")
	d.must(t, "docker", "cp", container+":/setpoint", program)
	text := testpages.Read(t, program)
	engine, err := os.ReadFile(repository + "/bin/engine/compressed-best/engine.wasm.br") // web/engine is whose that compiled last
	if err != nil || !bytes.Contains([]byte(text), engine) {
		t.Errorf("the playground's engine is not in the program: %v", err)
	}
}

func TestProgramsOfTheImageNeedNoLibraries(t *testing.T) {
	image(t, docker(t))
	for _, program := range programs.Names() {
		file, err := elf.Open(repository + "/bin/image/" + program)
		fatal.If(t, err)
		defer file.Close()
		for _, segment := range file.Progs {
			if segment.Type == elf.PT_INTERP {
				t.Errorf("%s asks for a loader", program)
			}
		}
	}
}

// The image runs as intended: read-only, without capabilities, as nobody.
func TestContainerServesAndStopsCleanly(t *testing.T) {
	d := docker(t)
	p, err := process.Reserve(3)
	fatal.If(t, err)
	defer p.Release()
	container := d.must(t, "docker", "run", "--detach", "--network=host", "--read-only", "--cap-drop=ALL",
		"--security-opt=no-new-privileges", "--health-interval=200ms",
		"--env=SETPOINT_GRPC_ADDRESS="+p.Address(0), "--env=SETPOINT_REST_ADDRESS="+p.Address(1), "--env=SETPOINT_ADMIN_ADDRESS="+p.Address(2),
		image(t, d))
	t.Cleanup(func() { d.must(t, "docker", "rm", "--force", container) })
	kit.Eventually(t, patience, "healthy", func() error {
		health, err := d.run("docker", "inspect", "--format={{.State.Health.Status}}", container)
		if err == nil && health != "healthy" {
			err = errors.New(health)
		}
		return err
	})
	const target = "clusters/demo/namespaces/shop/targets/web"
	c := caller{grpc: p.Address(0), rest: p.Address(1)}
	if code, desired, err := c.overREST(t, target); err != nil || code != 200 || desired == 0 {
		t.Errorf("over REST: %d, desired %d, %v", code, desired, err)
	}
	conn := c.connect(t, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if answer, err := c.ask(t, conn, target, ""); err != nil || answer.GetDesiredReplicas() != 5 {
		t.Errorf("over gRPC: %v, %v", answer, err)
	}
	for _, user := range d.users(t, container) {
		if user != "65532" {
			t.Errorf("it runs as %s", user)
		}
	}
	began := time.Now()
	d.must(t, "docker", "stop", "--time=30", container)
	if code := d.must(t, "docker", "inspect", "--format={{.State.ExitCode}}", container); code != "0" {
		t.Errorf("exit code %s after SIGTERM\n%s", code, d.must(t, "docker", "logs", container))
	}
	t.Logf("stopped in %v", time.Since(began))
}

func TestContainerRefusesOtherAddressesUnlessConfigured(t *testing.T) {
	d := docker(t)
	output, err := d.run("docker", "run", "--rm", "--network=none", "--env=SETPOINT_GRPC_ADDRESS=:9090", image(t, d))
	if err == nil || !strings.Contains(fmt.Sprint(err), "exit status 78") || !strings.Contains(fmt.Sprint(err), "other machines can reach") {
		t.Errorf("%v, %s", err, output)
	}
}
