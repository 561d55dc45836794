package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

// Groups have titles, in the order of the list; lists and texts are written as YAML, durations short,
// and what help hides is not there.
func TestExample(t *testing.T) {
	flags, o := newFlags()
	o.Wait = time.Hour
	list := config.List{
		{Title: "Waiting", Settings: []config.Setting{config.Duration(&o.Wait, "wait", "how long to wait for the store, which is longer than anybody would want to wait for a store")}},
		{Title: "Addresses", Settings: []config.Setting{config.String(&o.Admin, "admin-address", "`address` to serve metrics on")}},
	}
	list.Bind(flags)
	example := config.Example(flags)
	for _, want := range []string{`# Every setting with its default value.

# Waiting
# -------

# how long to wait for the store, which is longer than anybody would want to
# wait for a store
wait: 1h

# Addresses
# ---------

# address to serve metrics on
admin-address: ""

`,
		"backoffs: [1s, 1h30m]\n", `cors-origins: ["a", "b,c"]`, "explain: false\n", `grpc-address: ":9090"`, "headers: []\n", `log-level: "info"`,
		"max-pods: 5000\n", "rate: 0.5\n", "store-timeout: 5m\n", "weights: [1, 2]\n",
	} {
		if !strings.Contains(example, want) {
			t.Errorf("%q is missing in\n%s", want, example)
		}
	}
	if strings.Contains(example, "secret-door") || strings.Contains(example, "\nconfig:") {
		t.Errorf("this is no setting of a file:\n%s", example)
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
	flags.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && flag.Name != "config" && flag.Name != "help" && !strings.Contains(example, "\n"+flag.Name+": ") {
			t.Errorf("%s is missing", flag.Name)
		}
	})
}
