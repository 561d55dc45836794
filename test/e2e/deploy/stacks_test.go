//go:build linux

package deploy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kubernetes/kubetest"
)

// stack is a Compose file, as parsed by the program that deploys it.
type stack struct {
	Services map[string]stackService
}

type stackService struct {
	Image           string
	Entrypoint      []string
	Command         []string
	Environment     map[string]string
	User            string
	ReadOnly        bool     `json:"read_only"`
	CapDrop         []string `json:"cap_drop"`
	SecurityOpt     []string `json:"security_opt"`
	StopGracePeriod string   `json:"stop_grace_period"`
	MemLimit        string   `json:"mem_limit"`
	Logging         struct{ Driver string }
	Deploy          struct {
		Resources struct{ Limits struct{ Memory string } }
	}
}

// memory is the limit in bytes.
func (s *stackService) memory(t *testing.T) int64 {
	t.Helper()
	text := s.MemLimit + s.Deploy.Resources.Limits.Memory
	// What Compose calls m and g are powers of two.
	q, err := resource.ParseQuantity(strings.NewReplacer("m", "Mi", "g", "Gi").Replace(text))
	if err != nil {
		t.Fatalf("memory limit %q: %v", text, err)
	}
	return q.Value()
}

func render(t *testing.T, d *daemon, program ...string) stack {
	t.Helper()
	var s stack
	fatal.If(t, yaml.Unmarshal([]byte(d.must(t, program[0], program[1:]...)), &s))
	return s
}

// behind are the settings that depend on what is in front of a service: in Kubernetes the
// service has the certificate, in Compose the load balancer; a swarm's has neither, nor a
// Redis. Kubernetes waits before it stops a pod, Compose has the program wait.
var behind = []string{
	"SETPOINT_SHUTDOWN_DELAY",
	"SETPOINT_ALLOW_INSECURE_ADDRESSES", "SETPOINT_SERVE_TLS_CERT_FILE", "SETPOINT_SERVE_TLS_KEY_FILE",
}

// The files for Compose and Swarm run the service and its Redis as the kustomization does, and so
// the chart: the same image, arguments, settings, limits, user, and time to end.
func TestStacksAreAsTheKustomization(t *testing.T) {
	d := docker(t)
	c := kubetest.Start(t, kubetest.Config{WithoutMetrics: true, WithoutWorkloads: true})
	pods := map[string]template{}
	for _, pod := range templates(t, build(t, c, "base")) {
		pods[pod.name] = pod
	}
	compose := render(t, d, "docker-compose", "--file=deploy/compose.yaml", "config").Services
	swarm := render(t, d, "docker", "stack", "config", "--compose-file=deploy/swarm/stack.yaml").Services
	image := regexp.MustCompile(`(?m)^USER (\S+)$`).FindStringSubmatch(read(t, repository, "deploy/Dockerfile"))[1]

	for name, tt := range map[string]struct {
		service stackService
		pod     template
		user    string // where the file leaves it to the image
		// left are settings that this one goes without.
		left []string
	}{
		"compose setpoint-1": {service: compose["setpoint-1"], pod: pods["setpoint"], user: image},
		"compose setpoint-2": {service: compose["setpoint-2"], pod: pods["setpoint"], user: image},
		"compose redis":      {service: compose["redis"], pod: pods["setpoint-redis"]},
		"swarm server": {service: swarm["server"], pod: pods["setpoint"], user: image, left: []string{
			"SETPOINT_ADMIN_ADDRESS", "SETPOINT_REST_ADDRESS", "SETPOINT_REDIS", "SETPOINT_REDIS_PASSWORD_FILE", "SETPOINT_AUTH_TOKENS_FILE", "SETPOINT_POLICY_FILE",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, container := &tt.service, &tt.pod.Spec.Containers[0]
			same(t, "image", s.Image, container.Image)
			same(t, "arguments", s.Command, container.Args)
			same(t, "names of settings", without(slices.Sorted(maps.Keys(s.Environment)), behind), without(names(container.Env), slices.Concat(behind, tt.left)))
			for _, address := range []string{"SETPOINT_GRPC_ADDRESS", "SETPOINT_REST_ADDRESS", "SETPOINT_ADMIN_ADDRESS"} {
				if value, ok := s.Environment[address]; ok {
					same(t, address, value, valueOf(container.Env, address))
				}
			}
			if s.User == "" {
				s.User = tt.user
			}
			security := tt.pod.Spec.SecurityContext
			same(t, "user", s.User, fmt.Sprintf("%d:%d", *security.RunAsUser, *security.RunAsGroup))
			same(t, "file system is read-only", s.ReadOnly, *container.SecurityContext.ReadOnlyRootFilesystem)
			same(t, "dropped capabilities", strings.Join(s.CapDrop, " "), string(container.SecurityContext.Capabilities.Drop[0]))
			if !strings.HasPrefix(name, "swarm") { // docker stack deploy ignores it
				same(t, "new privileges", !slices.Contains(s.SecurityOpt, "no-new-privileges:true"), *container.SecurityContext.AllowPrivilegeEscalation)
			}
			same(t, "memory", s.memory(t), container.Resources.Limits.Memory().Value())
			grace, err := time.ParseDuration(s.StopGracePeriod)
			fatal.If(t, err)
			same(t, "time to end", grace, time.Duration(*tt.pod.Spec.TerminationGracePeriodSeconds)*time.Second)
		})
	}

	t.Run("every program is told its limit", func(t *testing.T) {
		for file, services := range map[string]map[string]stackService{"compose": compose, "swarm": swarm} {
			for name, s := range services {
				if limit, ok := s.Environment["GOMEMLIMIT"]; ok {
					told := resource.MustParse(strings.TrimSuffix(limit, "B"))
					same(t, file+" "+name, told.Value(), s.memory(t))
				} else if strings.Contains(s.Image, "setpoint") {
					t.Errorf("%s %s: GOMEMLIMIT is not set", file, name)
				}
			}
		}
	})

	// Docker's own driver keeps all lines for ever, and each call that is refused is one.
	t.Run("logs are bounded", func(t *testing.T) {
		for file, services := range map[string]map[string]stackService{"compose": compose, "swarm": swarm} {
			for name, s := range services {
				same(t, file+" "+name, s.Logging.Driver, "local")
			}
		}
	})

	// A misspelt variable is one that nobody reads.
	t.Run("every setting is one that its program has", func(t *testing.T) {
		for page, services := range map[string][]stackService{
			"setpoint.md":       {compose["setpoint-1"], compose["setpoint-2"], swarm["server"]},
			"setpoint-swarm.md": {swarm["agent"], swarm["node"]},
		} {
			text := read(t, repository, "docs/reference/cli", page)
			for _, s := range services {
				if len(s.Environment) == 0 {
					t.Errorf("%s: a service of it has no settings", page)
				}
				for variable := range s.Environment {
					if strings.HasPrefix(variable, "SETPOINT_") && !strings.Contains(text, "`"+variable+"`") {
						t.Errorf("docs/reference/cli/%s has no %s", page, variable)
					}
				}
			}
		}
	})
}

func same[T any](t *testing.T, what string, here, there T) {
	t.Helper()
	if diff := cmp.Diff(there, here); diff != "" {
		t.Errorf("%s (-kustomization +here):\n%s", what, diff)
	}
}

func names(env []corev1.EnvVar) (names []string) {
	for _, e := range env {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names
}

func valueOf(env []corev1.EnvVar, name string) string {
	for _, e := range env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// Monitoring beside the stack leaves its services what they are, but for the addresses that Prometheus scrapes.
func TestMonitoringFitsTheSwarmsStack(t *testing.T) {
	d := docker(t)
	file := func(name string) string { return "--compose-file=deploy/swarm/" + name }
	alone := render(t, d, "docker", "stack", "config", file("stack.yaml")).Services
	both := render(t, d, "docker", "stack", "config", file("stack.yaml"), file("monitoring.yaml")).Services
	if both["prometheus"].Image == "" || len(both) != len(alone)+1 {
		t.Errorf("beside the stack's services there is %v", slices.Sorted(maps.Keys(both)))
	}
	for name, service := range alone {
		with := both[name]
		if with.Environment["SETPOINT_ADMIN_ADDRESS"] == "" {
			t.Errorf("%s has no admin address", name)
		}
		for _, address := range []string{"SETPOINT_ADMIN_ADDRESS", "SETPOINT_REST_ADDRESS"} {
			delete(with.Environment, address)
			delete(service.Environment, address)
		}
		if diff := cmp.Diff(service, with); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
