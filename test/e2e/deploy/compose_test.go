//go:build linux

package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// standIn makes an image of a program of this machine, and of the libraries it needs,
// under the name that the compose file has. No registry is asked.
func standIn(t *testing.T, d *daemon, name, program, more string) {
	t.Helper()
	if _, err := d.run("docker", "image", "inspect", name); err == nil {
		return
	}
	folder := t.TempDir()
	path, err := exec.LookPath(program)
	fatal.If(t, err)
	libraries, err := exec.Command("ldd", path).Output()
	fatal.If(t, err)
	files := map[string]string{path: "/usr/bin/" + program}
	for _, field := range strings.Fields(string(libraries)) {
		if strings.HasPrefix(field, "/") {
			files[field] = field
		}
	}
	for from, to := range files {
		data := testpages.Read(t, from)
		to = filepath.Join(folder, "root", to)
		fatal.If(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(data), 0o755)))
	}
	dockerfile := "FROM scratch\nENV PATH=/usr/bin\nCOPY root /\n" + more
	fatal.If(t, errors.Join(os.Mkdir(filepath.Join(folder, "data"), 0o755), os.WriteFile(filepath.Join(folder, "Dockerfile"), []byte(dockerfile), 0o644)))
	d.must(t, "docker", "build", "--quiet", "--tag="+name, folder)
}

func standInForRedis(t *testing.T, d *daemon) {
	t.Helper()
	standIn(t, d, "redis:7.2", "redis-server", "COPY --chown=999:999 data /data\n")
}

// composition is the compose file, running.
type composition struct {
	*daemon
	t      *testing.T
	env    []string
	caller caller
}

// container returns the id of a service's container, running or not.
func (c *composition) container(service string) string {
	c.t.Helper()
	id := c.compose("ps", "--all", "--quiet", service)
	if id == "" || strings.ContainsAny(id, "\n ") {
		c.t.Fatalf("containers of %s: %q", service, id)
	}
	return id
}

// inspect renders a template of a service's container.
func (c *composition) inspect(service, format string) string {
	c.t.Helper()
	return c.must(c.t, "docker", "inspect", "--format="+format, c.container(service))
}

func (c *composition) compose(args ...string) string {
	c.t.Helper()
	output, err := c.runWith(c.env, "docker-compose", append([]string{"--file=deploy/compose.yaml", "--project-name=setpoint-e2e"}, args...)...)
	fatal.If(c.t, err)
	return output
}

func startComposition(t *testing.T) *composition {
	t.Helper()
	d := docker(t)
	standInForRedis(t, d)
	standIn(t, d, "haproxy:3.0", "haproxy", "")
	secrets := filepath.Join(t.TempDir(), "secrets")
	d.must(t, "deploy/secrets.sh", secrets)
	p, err := process.Reserve(2)
	fatal.If(t, err)
	t.Cleanup(p.Release)
	c := &composition{daemon: d, t: t, env: []string{
		"SETPOINT_IMAGE=" + image(t, d), "SETPOINT_SECRETS=" + secrets,
		"SETPOINT_REST=" + p.Address(0), "SETPOINT_GRPC=" + p.Address(1),
	}, caller: caller{rest: p.Address(0), grpc: p.Address(1), ca: read(t, secrets, "ca.crt"), token: read(t, secrets, "token")}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.compose("logs", "--no-color", "--tail=40"))
		}
		c.compose("down", "--volumes", "--timeout=30")
	})
	c.up()
	return c
}

const composeTarget = "clusters/default/namespaces/shop/targets/web"

// up starts everything, and waits until both instances are behind the balancer.
func (c *composition) up() {
	c.t.Helper()
	c.compose("up", "--detach", "--no-build", "--quiet-pull")
	conn := c.caller.connect(c.t)
	kit.Eventually(c.t, patience, "answering", func() error {
		_, err := c.caller.ask(c.t, conn, composeTarget, "")
		return err
	})
}

// answeredBy makes a call and returns an error if another instance answers it.
func (c *composition) answeredBy(conn *grpc.ClientConn, instance string) error {
	var header metadata.MD
	ctx, cancel := context.WithTimeout(c.caller.withToken(c.t.Context()), time.Minute)
	defer cancel()
	_, err := setpointv1.NewRecommendationServiceClient(conn).Recommend(ctx, request(composeTarget, ""), grpc.Header(&header))
	if by := header.Get("x-setpoint-instance"); err == nil && !slices.Equal(by, []string{instance}) {
		err = fmt.Errorf("answered by %q", by)
	}
	return err
}

func TestCompose(t *testing.T) {
	c := startComposition(t)
	conn := c.caller.connect(t)

	if code, desired, err := c.caller.overREST(t, composeTarget); err != nil || code != 200 || desired == 0 {
		t.Errorf("over REST: %d, desired %d, %v", code, desired, err)
	}
	nobody := c.caller
	nobody.token = ""
	if code, _, err := nobody.overREST(t, composeTarget); err != nil || code != 401 {
		t.Errorf("without a token, over REST: %d, %v", code, err)
	}
	if _, err := nobody.ask(t, conn, composeTarget, ""); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token, over gRPC: %v", err)
	}
	if _, err := c.caller.ask(t, conn, "clusters/other/namespaces/shop/targets/web", ""); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another cluster: %v", err)
	}

	t.Run("either instance answers for the other", func(t *testing.T) {
		for _, instance := range []string{"setpoint-1", "setpoint-2"} {
			c.compose("stop", "--timeout=30", instance)
			if code := c.inspect(instance, "{{.State.ExitCode}}"); code != "0" {
				t.Errorf("%s: exit code %s", instance, code)
			}
			for i := range 20 {
				if _, err := c.caller.ask(t, conn, composeTarget, ""); err != nil {
					t.Errorf("call %d without %s: %v", i, instance, err)
				}
			}
			c.compose("start", instance)
			kit.Eventually(t, patience, "behind the balancer again", func() error { return c.answeredBy(conn, instance) })
		}
	})

	t.Run("a crash is survived", func(t *testing.T) { crashes(t, c, conn) })

	t.Run("instances are healthy by their own word", func(t *testing.T) {
		for _, instance := range []string{"setpoint-1", "setpoint-2"} {
			kit.Eventually(t, patience, "healthy", func() error {
				if health := c.inspect(instance, "{{.State.Health.Status}}"); health != "healthy" {
					return errors.New(health)
				}
				return nil
			})
		}
	})

	t.Run("histories outlive everything", func(t *testing.T) {
		before, err := c.caller.ask(t, conn, composeTarget, "once")
		fatal.If(t, err)
		c.compose("down", "--timeout=30")
		c.up()
		after, err := c.caller.ask(t, c.caller.connect(t), composeTarget, "once")
		fatal.If(t, err)
		if before.GetRecommendationId() == "" || after.GetRecommendationId() != before.GetRecommendationId() {
			t.Errorf("the same request was decided as %q, and afterwards as %q", before.GetRecommendationId(), after.GetRecommendationId())
		}
	})

	t.Run("nothing runs as root or may write", func(t *testing.T) {
		for _, service := range []string{"setpoint-1", "setpoint-2", "redis", "balancer"} {
			if users := c.users(t, c.container(service)); slices.Contains(users, "0") {
				t.Errorf("%s runs as %q", service, users)
			}
			if is := c.inspect(service, "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}}"); is != "true [ALL]" {
				t.Errorf("%s: read-only, and capabilities dropped: %s", service, is)
			}
		}
	})
}
