package config_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

func TestDescribe(t *testing.T) {
	want := []config.Setting{
		{"--backoffs", "SETPOINT_BACKOFFS", "backoffs", `[1s, 1h30m]`, "backoffs"},
		{"--config", "SETPOINT_CONFIG", "", `""`, "config file (YAML or JSON) with flag names as keys; command line and environment take precedence"},
		{"--cors-origins", "SETPOINT_CORS_ORIGINS", "cors-origins", `["a", "b,c"]`, "origins that may call"},
		{"--explain", "SETPOINT_EXPLAIN", "explain", `false`, "explain always"},
		{"--grpc-address", "SETPOINT_GRPC_ADDRESS", "grpc-address", `":9090"`, "address to serve gRPC on"},
		{"--headers", "SETPOINT_HEADERS", "headers", `[]`, "headers"},
		{"--log-level", "SETPOINT_LOG_LEVEL", "log-level", `"info"`, "least level that is logged"},
		{"--max-pods", "SETPOINT_MAX_PODS", "max-pods", `5000`, "pods a request may have"},
		{"--port", "SETPOINT_PORT", "port", `80`, "a port"},
		{"--rate", "SETPOINT_RATE", "rate", `0.5`, `requests a second, "0" | none`},
		{"--store-timeout", "SETPOINT_STORE_TIMEOUT", "store-timeout", `5m`, "how long to wait for the store, which is longer than anybody would want to wait for a store"},
		{"--weights", "SETPOINT_WEIGHTS", "weights", `[1, 2]`, "weights"},
	}
	flags, _ := newFlags()
	if err := flags.Parse([]string{"--max-pods=1", "--cors-origins=x"}); err != nil {
		t.Fatal(err)
	}
	got := config.Describe(flags)
	if len(got) != len(want) {
		t.Fatalf("%d settings, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}

func TestMarkdown(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.String("grpc-address", ":9090", "`address` to serve gRPC on")
	flags.Duration("wait", 0, "a | b\nc")
	want := "" +
		"| flag | variable | default | meaning |\n" +
		"|---|---|---|---|\n" +
		"| `--grpc-address` | `SETPOINT_GRPC_ADDRESS` | `\":9090\"` | address to serve gRPC on |\n" +
		"| `--wait` | `SETPOINT_WAIT` | `0s` | a \\| b c |\n"
	if got := config.Markdown(flags); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestExample(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlag(flags)
	flags.String("grpc-address", ":9090", "`address` to serve gRPC on")
	flags.Duration("wait", 0, "how long to wait for the store, which is longer than anybody would want to wait for a store")
	want := `# Every setting with its default value.

# address to serve gRPC on
grpc-address: ":9090"

# how long to wait for the store, which is longer than anybody would want to
# wait for a store
wait: 0s
`
	if got := config.Example(flags); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestExampleSetsEverythingToItsDefault(t *testing.T) {
	flags, defaults := newFlags()
	example := config.Example(flags)
	got, problems := apply(t, nil, nil, example)
	if len(problems) > 0 {
		t.Fatalf("%s\n%s", strings.Join(problems, "\n"), example)
	}
	if values(got) != values(defaults) {
		t.Errorf("got  %s\nwant %s", values(got), values(defaults))
	}
	for _, s := range config.Describe(flags) {
		if s.Key != "" && !strings.Contains(example, "\n"+s.Key+": ") {
			t.Errorf("%s is missing", s.Key)
		}
	}
}
