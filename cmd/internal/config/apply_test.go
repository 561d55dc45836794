package config_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestApply(t *testing.T) {
	tests := []struct {
		name    string
		args    []string
		environ []string
		file    string
		want    func(*options) // changes the defaults to what is wanted
	}{
		{
			name: "nothing is given: the defaults",
			want: func(*options) {},
		},
		{
			name: "the file comes before the defaults",
			file: `
grpc-address: ":7070"
max-pods: 0x10
port: 81
rate: 2
store-timeout: 90s
explain: true
cors-origins: ["https://a,b", c]
headers:
  - "x: y"
weights: []
backoffs: [1m, 2m]
log-level: debug
`,
			want: func(o *options) {
				*o = options{
					Address: ":7070", MaxPods: 16, Port: 81, Rate: 2, Timeout: 90 * time.Second, Explain: true,
					Origins: []string{"https://a,b", "c"}, Headers: []string{"x: y"}, Weights: []int{},
					Backoffs: []time.Duration{time.Minute, 2 * time.Minute}, Level: "debug",
				}
			},
		},
		{
			name: "the environment comes before the file",
			environ: []string{
				"SETPOINT_GRPC_ADDRESS=:6060", "SETPOINT_MAX_PODS=7", "SETPOINT_RATE=1e3", "SETPOINT_STORE_TIMEOUT=1h",
				"SETPOINT_EXPLAIN=1", "SETPOINT_CORS_ORIGINS=x,y", "SETPOINT_HEADERS=x: y, z", "SETPOINT_WEIGHTS=3", "SETPOINT_LOG_LEVEL=2",
			},
			file: `{"grpc-address": ":7070", "max-pods": 16, "cors-origins": ["c"], "port": 82}`,
			want: func(o *options) {
				o.Address, o.MaxPods, o.Port, o.Rate, o.Timeout, o.Explain = ":6060", 7, 82, 1000, time.Hour, true
				o.Origins, o.Headers, o.Weights, o.Level = []string{"x", "y"}, []string{"x: y, z"}, []int{3}, "2"
			},
		},
		{
			name:    "the command line comes before both, and its lists replace theirs",
			args:    []string{"--grpc-address=:5050", "--cors-origins=p", "--cors-origins=q", "--max-pods=1"},
			environ: []string{"SETPOINT_GRPC_ADDRESS=:6060", "SETPOINT_CORS_ORIGINS=x,y"},
			file:    `{grpc-address: ":7070", cors-origins: [c], max-pods: 16}`,
			want: func(o *options) {
				o.Address, o.Origins, o.MaxPods = ":5050", []string{"p", "q"}, 1
			},
		},
		{
			name:    "what a stronger source replaces is not looked at",
			args:    []string{"--max-pods=1"},
			environ: []string{"SETPOINT_MAX_PODS=many"},
			want:    func(o *options) { o.MaxPods = 1 },
		},
		{
			name:    "an empty variable is an empty value",
			environ: []string{"SETPOINT_GRPC_ADDRESS=", "SETPOINT_CORS_ORIGINS="},
			want:    func(o *options) { o.Address, o.Origins = "", []string{} },
		},
		{
			name:    "of two entries for a variable the first counts",
			environ: []string{"SETPOINT_PORT=1", "SETPOINT_PORT=2"},
			want:    func(o *options) { o.Port = 1 },
		},
		{
			name:    "other variables are none of ours",
			environ: []string{"HOME=/", "SETPOINTER=1", "grpc_address=x", "PORT=3", "broken"},
			want:    func(*options) {},
		},
		{
			name: "a file may say nothing",
			file: "# max-pods: 3\n",
			want: func(*options) {},
		},
		{
			name: "a file may have an empty document",
			file: "---\n# max-pods: 3\n",
			want: func(*options) {},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := apply(t, tt.args, tt.environ, tt.file)
			if len(problems) > 0 {
				t.Fatalf("error:\n%s", strings.Join(problems, "\n"))
			}
			_, want := newFlags()
			tt.want(want)
			if values(got) != values(want) {
				t.Errorf("got  %s\nwant %s", values(got), values(want))
			}
		})
	}
}

func TestApplyProblems(t *testing.T) {
	tests := []struct {
		name    string
		environ []string
		file    string
		want    []string
	}{
		{
			name:    "an unknown variable, with the one that was meant",
			environ: []string{"SETPOINT_GRPC_ADRESS=:1", "SETPOINT_HELP=1", "SETPOINT_GRPC-ADDRESS=:1"},
			want: []string{
				"SETPOINT_GRPC_ADRESS: no such setting, did you mean SETPOINT_GRPC_ADDRESS?",
				"SETPOINT_HELP: no such setting",
				"SETPOINT_GRPC-ADDRESS: no such setting, did you mean SETPOINT_GRPC_ADDRESS?",
			},
		},
		{
			name:    "a variable of another command",
			environ: []string{"SETPOINT_SERVER=x", "SETPOINT_SERVERS=x", "SETPOINT_IMAGE=the stack's", "SETPOINT_URL=a script's"},
			want:    []string{"SETPOINT_SERVERS: no such setting"},
		},
		{
			name: "variables of a service named setpoint or setpoint-redis",
			environ: []string{
				"SETPOINT_SERVICE_HOST=10.0.0.7", "SETPOINT_SERVICE_PORT=9090", "SETPOINT_SERVICE_PORT_GRPC=9090",
				"SETPOINT_PORT_9090_TCP=tcp://10.0.0.7:9090", "SETPOINT_PORT_9090_TCP_PROTO=tcp", "SETPOINT_PORT_9090_TCP_PORT=9090",
				"SETPOINT_REDIS_SERVICE_HOST=10.0.0.8", "SETPOINT_REDIS_PORT=tcp://10.0.0.8:6379", "SETPOINT_REDIS_PORT_6379_TCP_ADDR=10.0.0.8",
			},
		},
		{
			name:    "a variable that only looks as if it were of a service",
			environ: []string{"SETPOINT_GRPC_PORT=9090"},
			want:    []string{"SETPOINT_GRPC_PORT: no such setting"},
		},
		{
			name: "variables of the wrong type",
			environ: []string{
				"SETPOINT_MAX_PODS=many", "SETPOINT_PORT=70000", "SETPOINT_RATE=", "SETPOINT_STORE_TIMEOUT=30", "SETPOINT_EXPLAIN=yes",
				"SETPOINT_WEIGHTS=1,x", "SETPOINT_CORS_ORIGINS=a\"b", "SETPOINT_LOG_LEVEL=loud",
			},
			want: []string{
				`SETPOINT_MAX_PODS: must be a whole number, is "many"`,
				`SETPOINT_PORT: 70000 is out of range for uint16`,
				`SETPOINT_RATE: must be a number, is ""`,
				`SETPOINT_STORE_TIMEOUT: must be a duration such as "30s", is "30": write 30s`,
				`SETPOINT_EXPLAIN: must be true or false, is "yes"`,
				`SETPOINT_WEIGHTS: must be a list separated by commas, each a whole number, is "1,x"`,
				`SETPOINT_CORS_ORIGINS: parse error on line 1, column 2: bare " in non-quoted-field`,
				`SETPOINT_LOG_LEVEL: must be info, debug or 2`,
			},
		},
		{
			name: "unknown keys, with the ones that were meant",
			file: "grpc_address: x\n\nGRPC-Address: y\nmetrics: {}\nhelp: true\n",
			want: []string{
				"setpoint.yaml:1: grpc_address: no such setting, did you mean grpc-address?",
				"setpoint.yaml:3: GRPC-Address: no such setting, did you mean grpc-address?",
				"setpoint.yaml:4: metrics: no such setting",
				"setpoint.yaml:5: help: no such setting",
			},
		},
		{
			name: "a key that is there twice",
			file: "port: 1\nexplain: true\nport: 2\n",
			want: []string{"setpoint.yaml:3: port: is a duplicate key, first in line 1"},
		},
		{
			name: "anchors and aliases",
			file: "port: &p 81\nmax-pods: *p\n",
			want: []string{
				"setpoint.yaml:1: port: YAML anchors and aliases (&name, *name, <<) are not allowed here: write out what they stand for",
				"setpoint.yaml:2: max-pods: YAML anchors and aliases (&name, *name, <<) are not allowed here: write out what they stand for",
			},
		},
		{
			name: "a key that is no name",
			file: "[port]: 1\n",
			want: []string{"setpoint.yaml:1: a key must be a name, is a list"},
		},
		{
			name: "the file in the file",
			file: "config: other.yaml\n",
			want: []string{"setpoint.yaml:1: config: cannot be set in a config file"},
		},
		{
			name: "values of the wrong type",
			file: `
grpc-address: 9090
max-pods: "16"
port: 70000
rate: fast
store-timeout: 30
explain: "true"
cors-origins: a,b
headers: [1, x]
weights: [1, 2.5]
backoffs: [1m, soon]
log-level: [info]
`,
			want: []string{
				`setpoint.yaml:2: grpc-address: must be a string, is a number; put it in quotes`,
				`setpoint.yaml:3: max-pods: must be a whole number, is a string`,
				`setpoint.yaml:4: port: 70000 is out of range for uint16`,
				`setpoint.yaml:5: rate: must be a number, is a string`,
				`setpoint.yaml:6: store-timeout: must be a duration such as "30s", is a number: write 30s`,
				`setpoint.yaml:7: explain: must be true or false, is a string`,
				`setpoint.yaml:8: cors-origins: must be a list, is a string`,
				`setpoint.yaml:9: headers[0]: must be a string, is a number; put it in quotes`,
				`setpoint.yaml:10: weights[1]: must be a whole number, is a number`,
				`setpoint.yaml:11: backoffs: must be a list, each a duration such as "30s", is "1m, soon"`,
				`setpoint.yaml:12: log-level: must be a single value, is a list`,
			},
		},
		{
			name: "values that are not there",
			file: "grpc-address:\nmax-pods: null\nweights: ~\nlog-level:\n",
			want: []string{
				`setpoint.yaml:1: grpc-address: must be a string, is empty`,
				`setpoint.yaml:2: max-pods: must be a whole number, is empty`,
				`setpoint.yaml:3: weights: must be a list, is empty`,
				`setpoint.yaml:4: log-level: must be a single value, is empty`,
			},
		},
		{
			name:    "a wrong type even where the environment comes before the file",
			environ: []string{"SETPOINT_MAX_PODS=7", "SETPOINT_WEIGHTS=7"},
			file:    "max-pods: many\nweights: 3\n",
			want: []string{
				`setpoint.yaml:1: max-pods: must be a whole number, is a string`,
				`setpoint.yaml:2: weights: must be a list, is a number`,
			},
		},
		{
			name:    "problems of all sources at once",
			environ: []string{"SETPOINT_MAX_PODS=many"},
			file:    "log-level: loud\n",
			want: []string{
				`SETPOINT_MAX_PODS: must be a whole number, is "many"`,
				`setpoint.yaml:1: log-level: must be info, debug or 2`,
			},
		},
		{
			name: "a list instead of a map",
			file: "- port: 1\n",
			want: []string{"setpoint.yaml:1: must be a map, is a list"},
		},
		{
			name: "several documents, were the first empty",
			file: "---\n---\nport: 2\n",
			want: []string{"setpoint.yaml: must contain one document, not several"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := apply(t, nil, tt.environ, tt.file)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tt.want, "\n  "))
			}
		})
	}
}

func TestApplyRefusesBrokenYAML(t *testing.T) {
	_, got := apply(t, nil, nil, "port: 1\nexplain: [true\n")
	if len(got) != 1 || !strings.HasPrefix(got[0], "setpoint.yaml: is neither YAML nor JSON: line ") {
		t.Errorf("got %q, want one line that names the file", got)
	}
}

func TestApplyKeepsSecretsOutOfErrors(t *testing.T) {
	for _, file := range []string{"grpc-address: 12345\n", "grpc-address: [12345]\n", "headers: [12345]\n"} {
		if _, got := apply(t, nil, nil, file); len(got) != 1 || strings.Contains(got[0], "12345") {
			t.Errorf("%q: got %q, want one line without the value", file, got)
		}
	}
}

func TestApplyTakesTheFileFromTheEnvironment(t *testing.T) {
	flags, _ := newFlags()
	missing := filepath.Join(t.TempDir(), "nowhere.yaml")
	err := config.Apply(flags, []string{"SETPOINT_CONFIG=" + missing})
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "config file: open "+missing) {
		t.Errorf("got %v, want that %s does not exist", err, missing)
	}
}

func TestApplyMarksFlagsAsSet(t *testing.T) {
	flags, _ := newFlags()
	fatal.If(t, config.Apply(flags, []string{"SETPOINT_MAX_PODS=7"}))
	if !flags.Changed("max-pods") || flags.Changed("port") {
		t.Error("want max-pods Changed, and port not")
	}
}

// A flag that means something else in another program has a variable of its own, and the other's
// is refused with its name: a client's certificate never becomes a server's.
func TestAProgramsOwnVariables(t *testing.T) {
	var certificate string
	list := config.List{{Settings: []config.Setting{config.String(&certificate, "tls-cert-file", "certificate").OfProgram("serve")}}}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	list.Bind(flags)
	config.AddFlag(flags)
	err := config.Apply(flags, []string{"SETPOINT_TLS_CERT_FILE=client.crt"})
	if want := "SETPOINT_TLS_CERT_FILE: is a setting of other programs, did you mean SETPOINT_SERVE_TLS_CERT_FILE?"; err == nil || err.Error() != want || certificate != "" {
		t.Errorf("got %v and %q, want %q", err, certificate, want)
	}
	if err := config.Apply(flags, []string{"SETPOINT_SERVE_TLS_CERT_FILE=server.crt"}); err != nil || certificate != "server.crt" {
		t.Errorf("got %v and %q", err, certificate)
	}
}
